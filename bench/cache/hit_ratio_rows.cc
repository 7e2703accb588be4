// Hit ratios, which are counted and not timed: a trace is run through each policy once, whatever the repetitions.
//
// The traces are seeded ones and, where the environment variable STOCKADE_BENCH_TRACES names a folder, its *.txt.gz: a
// decimal key a line.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/generators.h"
#include "cache/policies.h"
#include "cache/rows.h"
#include "stockade/base/strings.h"

#ifdef STOCKADE_BENCH_ZLIB
#include "flash_sale/trace.h"
#endif

namespace stockade::bench {
namespace {

constexpr size_t kGenerated = 400'000;
constexpr int64_t kQuickRequests = 2'000;

using ReadKeys = std::function<std::vector<uint64_t>()>;

// Keys numbered in the order in which they are first asked for.
struct Numbered {
  std::vector<uint32_t> keys;
  size_t key_count;
};

Numbered Number(const std::vector<uint64_t>& keys, size_t most) {
  std::unordered_map<uint64_t, uint32_t> numbers;
  Numbered numbered;
  for (size_t i = 0; i < std::min(keys.size(), most); ++i) {
    numbered.keys.push_back(numbers.emplace(keys[i], static_cast<uint32_t>(numbers.size())).first->second);
  }
  numbered.key_count = numbers.size();
  return numbered;
}

// As many shards as LoadingCache has for so many entries of weight 1.
size_t ShardsFor(size_t room) { return std::clamp<size_t>(std::bit_floor(room / 64), 1, 16); }

void AddRows(Suite& suite, const std::string& trace, const ReadKeys& read) {
  for (const size_t per_cent : {1, 10}) {
    for (const bool sharded : {false, true}) {
      suite.Add({.name = base_internal::Concat("hit ratio, ", trace, ", room for ", per_cent, " %",
                                               sharded ? ", sharded" : ", one shard"),
                 .unit = "%",
                 .peer = "best of LRU, SIEVE, S3-FIFO",
                 .better = Better::kHigher,
                 .target = "difference >= -0.5"},
                {.prepare = [=](const Scale& scale) -> Contestants {
                  const std::vector<uint64_t> keys = read();
                  const auto most = scale.Sized(kQuickRequests, static_cast<int64_t>(keys.size()));
                  const Numbered numbered = Number(keys, static_cast<size_t>(most));
                  const Requests requests{numbered.keys, numbered.key_count};
                  const size_t room = std::max<size_t>(numbered.key_count * per_cent / 100, 1);
                  const double ours = OurHitRatio(requests, room, sharded ? ShardsFor(room) : 1);
                  const double best = std::max(
                      {LruHitRatio(requests, room), SieveHitRatio(requests, room), S3FifoHitRatio(requests, room)});
                  return {[=](Worker&) { return ours; }, [=](Worker&) { return best; }};
                }});
    }
  }
}

#ifdef STOCKADE_BENCH_ZLIB
constexpr std::string_view kSuffix = ".txt.gz";

void AddTraceRows(Suite& suite, const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().ends_with(kSuffix)) files.push_back(entry.path());
  }
  if (files.empty()) suite.LeaveOut("hit ratios of traces", base_internal::Concat("no *", kSuffix, " in ", folder));
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::string name = file.filename().string();
    name.resize(name.size() - kSuffix.size());
    AddRows(suite, name, [path = file.string()] { return Require(flash_sale::ReadTrace(path), "a trace"); });
  }
}
#else
void AddTraceRows(Suite& suite, const std::string&) { suite.LeaveOut("hit ratios of traces", "zlib is not found"); }
#endif

}  // namespace

void AddHitRatioRows(Suite& suite) {
  for (const Generator& generator : Generators(kGenerated)) AddRows(suite, generator.name, generator.draw);
  const char* const folder = std::getenv("STOCKADE_BENCH_TRACES");
  if (folder == nullptr || *folder == '\0') {
    suite.LeaveOut("hit ratios of traces", "STOCKADE_BENCH_TRACES names no folder");
  } else {
    AddTraceRows(suite, folder);
  }
}

}  // namespace stockade::bench
