#include "trace.h"

#include <errno.h>
#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace flash_sale {
namespace {

// A key has at most 20 digits; a longer line is no key, and need not be kept whole to say so.
constexpr size_t kMostLineBytes = 64;
// 800 MB of keys.
constexpr size_t kMostViews = 100'000'000;

absl::Status Bad(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("trace ", path, ": ", what));
}

// Puts lines together from the pieces that zlib gives.
class LineParser {
 public:
  LineParser(const std::string& path, std::vector<ProductId>& views) : path_(path), views_(views) {}

  absl::Status Feed(std::string_view piece) {
    for (const char c : piece) {
      if (c != '\n') {
        if (line_.size() <= kMostLineBytes) line_.push_back(c);
      } else if (absl::Status ended = EndLine(); !ended.ok()) {
        return ended;
      }
    }
    return absl::OkStatus();
  }

  // The last line may lack its newline.
  absl::Status Finish() { return line_.empty() ? absl::OkStatus() : EndLine(); }

 private:
  absl::Status EndLine() {
    ++line_number_;
    if (line_.ends_with('\r')) line_.pop_back();
    ProductId key = 0;
    const char* const end = line_.data() + line_.size();
    const auto [rest, error] = std::from_chars(line_.data(), end, key);
    if (error != std::errc{} || rest != end) {
      return Bad(path_, absl::StrCat("line ", line_number_, " is not a key: '", absl::CEscape(line_),
                                     "' (a key is a decimal number)"));
    }
    // SQLite's integers are signed.
    if (key > static_cast<ProductId>(std::numeric_limits<int64_t>::max())) {
      return Bad(path_, absl::StrCat("line ", line_number_, " is not a key: ", line_, " is above 2^63 - 1"));
    }
    if (views_.size() == kMostViews) return Bad(path_, absl::StrCat("more than ", kMostViews, " lines"));
    views_.push_back(key);
    line_.clear();
    return absl::OkStatus();
  }

  const std::string& path_;
  std::vector<ProductId>& views_;
  std::string line_;
  size_t line_number_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<ProductId>> ReadTrace(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return Bad(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return Bad(path, "a directory, not a file");
  const auto close = [](gzFile file) { gzclose_r(file); };
  errno = 0;
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rbe"), close);
  if (file == nullptr) return Bad(path, errno != 0 ? std::strerror(errno) : "out of memory");

  std::vector<ProductId> views;
  LineParser parser(path, views);
  std::array<char, 1 << 16> buffer;
  int got = 0;
  while ((got = gzread(file.get(), buffer.data(), buffer.size())) > 0) {
    if (absl::Status fed = parser.Feed({buffer.data(), static_cast<size_t>(got)}); !fed.ok()) return fed;
  }
  int code = Z_OK;
  const char* const text = gzerror(file.get(), &code);
  // A gzip that ends too early reads as a plain end, and only the code tells.
  if (got < 0 || code != Z_OK) {
    return Bad(path, code == Z_ERRNO ? std::strerror(errno) : absl::StrCat("damaged gzip: ", text));
  }
  if (absl::Status finished = parser.Finish(); !finished.ok()) return finished;
  if (views.empty()) return Bad(path, "empty: it has no page views");
  return views;
}

ProductId MostViewed(const std::vector<ProductId>& views) {
  std::unordered_map<ProductId, size_t> counts;
  for (const ProductId id : views) ++counts[id];
  ProductId most = views.front();
  for (const auto& [id, count] : counts) {
    if (count > counts[most] || (count == counts[most] && id < most)) most = id;
  }
  return most;
}

}  // namespace flash_sale
