// Hit ratios, which are counted and not timed: a trace is run through each policy once, whatever the repetitions.
//
// The traces are seeded ones and, where the environment variable STOCKADE_BENCH_TRACES names a folder, its *.txt.gz: a
// decimal key a line.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/generators.h"
#include "cache/policies.h"
#include "cache/rows.h"
#include "peers/peer_driver.h"
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

constexpr std::array kPerCents = {1, 5, 10, 25};

// Ours at commit 5777122, whose small queue evicted everything while the main queue was empty, by kPerCents, sharded.
// The last six are public traces.
constexpr char kBefore[] = "Stockade at 5777122";
struct HitRatiosBefore {
  std::string_view trace;
  std::array<double, kPerCents.size()> per_cent;
};
constexpr HitRatiosBefore kHitRatiosBefore[] = {
    {"Zipf 0.7", {19.06, 34.00, 42.91, 58.79}},
    {"Zipf 0.9", {40.58, 56.88, 64.73, 75.99}},
    {"Zipf 1.1", {65.44, 78.31, 83.11, 88.73}},
    {"loop", {0.00, 0.00, 0.00, 3.91}},
    {"loop and Zipf 0.9", {19.79, 27.69, 53.60, 83.86}},
    {"Zipf 0.9 and scans", {45.73, 60.37, 66.50, 71.77}},
    {"scan, then Zipf 0.9", {44.01, 58.53, 65.69, 70.15}},
    {"shifting hot set", {41.77, 56.06, 63.92, 76.91}},
    {"replaced hot set", {47.11, 70.37, 84.59, 89.30}},
    {"2_pools", {48.01, 51.91, 54.36, 61.59}},
    {"gli", {1.18, 1.13, 1.21, 29.29}},
    {"multi1", {6.58, 45.57, 48.07, 49.11}},
    {"oltp", {46.52, 62.43, 68.02, 73.76}},
    {"sprite", {22.03, 66.75, 85.91, 92.75}},
    {"web07", {43.71, 54.02, 58.12, 64.13}},
};

struct Trace {
  Numbered numbered;
  size_t room;
  Requests requests() const { return {numbered.keys, numbered.key_count}; }
};

// Of a peer. A figure that is written down is of the whole trace, and says nothing in a quick run.
using PeerHitRatio = std::function<double(const Trace& trace)>;

void AddRow(Suite& suite, const std::string& name, int per_cent, const ReadKeys& read, const std::string& peer,
            const std::string& target, const PeerHitRatio& peer_ratio) {
  suite.Add({.name = base_internal::Concat("hit ratio, ", name, ", room for ", per_cent, " %"),
             .unit = "%",
             .peer = peer,
             .better = Better::kHigher,
             .target = target},
            {.prepare = [=](const Scale& scale) -> Contestants {
              const std::vector<uint64_t> keys = read();
              const auto most = scale.Sized(kQuickRequests, static_cast<int64_t>(keys.size()));
              Trace trace = {.numbered = Number(keys, static_cast<size_t>(most)), .room = 1};
              trace.room = std::max<size_t>(trace.numbered.key_count * static_cast<size_t>(per_cent) / 100, 1);
              const double ours = OurHitRatio(trace.requests(), trace.room, ShardsFor(trace.room));
              const double theirs = peer_ratio(trace);
              return {[=](Worker&) { return ours; }, [=](Worker&) { return theirs; }};
            }});
}

double BestHitRatio(const Trace& trace) {
  return std::max({LruHitRatio(trace.requests(), trace.room), SieveHitRatio(trace.requests(), trace.room),
                   S3FifoHitRatio(trace.requests(), trace.room)});
}

// Caffeine's, by one process for all rows.
class CaffeineHitRatio {
 public:
  explicit CaffeineHitRatio(std::string driver) : driver_(std::move(driver)) {}

  double operator()(const Trace& trace) const {
    if (*process_ == nullptr) {
      *process_ =
          Require(StartPeerDriver(driver_, {.keys = 1}, {.quick = true, .span = absl::Milliseconds(1)}), "Caffeine");
    }
    const auto hits = Require(ReplayByPeerDriver(**process_, trace.room, trace.numbered.keys), "Caffeine");
    return 100.0 * static_cast<double>(hits) / static_cast<double>(trace.numbered.keys.size());
  }

 private:
  const std::string driver_;
  // Started by the first row that runs, and shared by the copies of this object.
  const std::shared_ptr<std::unique_ptr<PeerProcess>> process_ = std::make_shared<std::unique_ptr<PeerProcess>>();
};

bool IsLoop(std::string_view trace) {
  return trace == "loop" || trace == "gli" || trace == "multi1" || trace == "2_pools";
}

std::string CaffeineTarget(std::string_view trace, int per_cent) {
  return IsLoop(trace) && (per_cent == 5 || per_cent == 10) ? "difference >= -0.5" : "-";
}

// Loads without a loop lose next to nothing by what keeps loops. A scan before another load is what loses most.
std::string BeforeTarget(std::string_view trace) {
  if (trace == "scan, then Zipf 0.9") return "difference >= -2";
  return IsLoop(trace) || trace == "loop and Zipf 0.9" ? "-" : "difference >= -0.5";
}

void AddRows(Suite& suite, const std::string& trace, const ReadKeys& read, const PeerHitRatio& caffeine) {
  const auto* const before = std::ranges::find(kHitRatiosBefore, trace, &HitRatiosBefore::trace);
  for (size_t i = 0; i < kPerCents.size(); ++i) {
    const int per_cent = kPerCents[i];
    AddRow(suite, trace, per_cent, read, "best of LRU, SIEVE, S3-FIFO", "difference >= -0.5", BestHitRatio);
    if (caffeine) AddRow(suite, trace, per_cent, read, "Caffeine", CaffeineTarget(trace, per_cent), caffeine);
    if (before == std::end(kHitRatiosBefore)) continue;
    AddRow(suite, trace, per_cent, read, kBefore, BeforeTarget(trace),
           [figure = before->per_cent[i]](const Trace&) { return figure; });
  }
}

#ifdef STOCKADE_BENCH_ZLIB
constexpr std::string_view kSuffix = ".txt.gz";

void AddTraceRows(Suite& suite, const std::string& folder, const PeerHitRatio& caffeine) {
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
    AddRows(
        suite, name, [path = file.string()] { return Require(flash_sale::ReadTrace(path), "a trace"); }, caffeine);
  }
}
#else
void AddTraceRows(Suite& suite, const std::string&, const PeerHitRatio&) {
  suite.LeaveOut("hit ratios of traces", "zlib is not found");
}
#endif

}  // namespace

void AddHitRatioRows(Suite& suite) {
  const absl::StatusOr<std::string> driver = FindPeerDriver(STOCKADE_BENCH_PEERS_DIR, "caffeine");
  PeerHitRatio caffeine;
  if (driver.ok()) {
    caffeine = CaffeineHitRatio(*driver);
  } else {
    suite.LeaveOut("hit ratios of Caffeine", std::string(driver.status().message()));
  }
  for (const Generator& generator : Generators(kGenerated)) AddRows(suite, generator.name, generator.draw, caffeine);
  const char* const folder = std::getenv("STOCKADE_BENCH_TRACES");
  if (folder == nullptr || *folder == '\0') {
    suite.LeaveOut("hit ratios of traces", "STOCKADE_BENCH_TRACES names no folder");
  } else {
    AddTraceRows(suite, folder, caffeine);
  }
}

}  // namespace stockade::bench
