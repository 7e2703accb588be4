#include "options.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/parse_number.h"

namespace flash_sale {
namespace {

using examples::ParseNumber;

absl::Status ParseText(const std::string& option, const std::string& text, std::string& value) {
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(option, " takes a path, not an empty string"));
  value = text;
  return absl::OkStatus();
}

absl::Status SetOption(const std::string& name, const std::string& text, Options& options) {
  if (name == "--trace") return ParseText(name, text, options.trace);
  if (name == "--dir") return ParseText(name, text, options.dir);
  if (name == "--audit") return ParseText(name, text, options.audit_dir);
  if (name == "--viewers") return ParseNumber<int64_t>(name, text, 1, 1024, options.viewers);
  if (name == "--buyers") return ParseNumber<int64_t>(name, text, 1, 10'000'000, options.buyers);
  if (name == "--stock") return ParseNumber<int64_t>(name, text, 1, 1'000'000'000, options.stock);
  if (name == "--shards") return ParseNumber<int64_t>(name, text, 1, 256, options.shards);
  if (name == "--seconds") return ParseNumber<int64_t>(name, text, 1, 3600, options.seconds);
  if (name == "--seed") {
    return ParseNumber<uint64_t>(name, text, 0, std::numeric_limits<uint64_t>::max(), options.seed);
  }
  return ParseNumber<uint16_t>(name, text, 0, 65535, options.port);
}

bool TakesValue(std::string_view name) {
  constexpr std::string_view kNames[] = {"--trace", "--dir",    "--audit",   "--viewers", "--buyers",
                                         "--stock", "--shards", "--seconds", "--seed",    "--port"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

}  // namespace

absl::Duration Options::hot_ttl() const { return std::min(absl::Milliseconds(500), absl::Seconds(seconds) / 8); }

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      continue;
    }
    if (name == "--serve") {
      options.serve = true;
      continue;
    }
    std::string value;
    const size_t equals = name.find('=');
    const bool joined = equals != std::string::npos;
    if (joined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (!TakesValue(name)) {
      return absl::InvalidArgumentError(absl::StrCat("unknown option '", argv[i], "' (--help lists them)"));
    }
    if (!joined) {
      if (i + 1 == argc) return absl::InvalidArgumentError(absl::StrCat(name, " takes a value"));
      value = argv[++i];
    }
    if (absl::Status set = SetOption(name, value, options); !set.ok()) return set;
  }
  return options;
}

const char* UsageText() {
  return R"txt(usage: flash_sale [options]
Runs page views and a flash sale twice under the same load: in a typical naive implementation, then with Stockade.

  --trace FILE   page views to replay: one decimal product id per line, plain or gzip (default: seeded Zipf)
  --viewers N    threads that view pages (32)
  --buyers N     buyers in the sale (50000)
  --stock N      units for sale (2000)
  --shards N     number of shards of the stock (8)
  --seconds N    duration of the page views of each half (6); the sale opens after a third of it
  --seed N       seed of all random numbers (1)
  --dir DIR      directory for the databases (default: a new temporary directory)
  --port N       port of /metrics and --serve on 127.0.0.1 (9464; 0: a free port)
  --serve        serve a web page that shows and repeats the run, and a JSON API of the Stockade shop, until SIGINT or
                 SIGTERM
  --audit DIR    only audit the ledger that an earlier (perhaps killed) run left in DIR
  --help         print this text

Exit status: 0 the audit passed, 1 it failed, 2 invalid input or an unusable file, directory or port.
)txt";
}

}  // namespace flash_sale
