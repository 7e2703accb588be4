// Beside caches that others have built: Caffeine and moka, each in a process of its own, and oneTBB's in this one. All
// draw the same keys, have the same capacity, and expire nothing.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/rows.h"
#include "cache/values.h"
#include "measure/threads.h"
#include "peers/peer_driver.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"
#ifdef STOCKADE_BENCH_TBB
#define TBB_PREVIEW_CONCURRENT_LRU_CACHE 1
#include <oneapi/tbb/concurrent_lru_cache.h>
#endif

namespace stockade::bench {
namespace {

constexpr int64_t kBatch = 256;

// One run of the workload: get(key) looks a key up, put(key) writes it.
template <typename Get, typename Put>
double OpsPerSecond(Worker& worker, const CacheWorkload& workload, const CacheDraws::Zipf* zipf, absl::Duration span,
                    Get get, Put put) {
  alignas(128) CacheDraws next(workload, zipf, worker.thread());
  return worker
      .RunFor(span, kBatch,
              [&](size_t, int64_t ops) {
                CacheDraws draws = next;
                for (int64_t i = 0; i < ops; ++i) {
                  const uint64_t key = draws.NextKey();
                  if (draws.IsWrite()) {
                    put(key);
                  } else {
                    get(key);
                  }
                }
                next = draws;
              })
      .PerSecond();
}

// A repetition of one side: operations per second.
using CacheRun = std::function<double(Worker& worker, absl::Duration span)>;

template <typename Value>
class Ours {
 public:
  explicit Ours(const CacheWorkload& workload)
      : workload_(workload),
        zipf_(workload.distribution == Distribution::kZipf ? CacheDraws::DrawZipf(workload.keys) : CacheDraws::Zipf()),
        cache_({.name = "bench", .max_weight = static_cast<int64_t>(workload.Capacity()), .metrics = &registry_},
               [](const uint64_t&, LoadContext&) -> absl::StatusOr<Value> { return absl::InternalError("a miss"); }) {
    for (uint64_t key = 0; key < workload.keys; ++key) cache_.Put(key, MakeValue<Value>(key));
  }

  double Run(Worker& worker, absl::Duration span) {
    return OpsPerSecond(
        worker, workload_, zipf_.empty() ? nullptr : &zipf_, span,
        [this](uint64_t key) { KeepAlive(FirstWord(*cache_.Get(key).value())); },
        [this](uint64_t key) { cache_.Put(key, MakeValue<Value>(key)); });
  }

 private:
  const CacheWorkload workload_;
  const CacheDraws::Zipf zipf_;
  MetricsRegistry registry_;
  LoadingCache<uint64_t, Value> cache_;
};

template <typename Value>
CacheRun OursOf(const CacheWorkload& workload) {
  const auto ours = std::make_shared<Ours<Value>>(workload);
  return [ours](Worker& worker, absl::Duration span) { return ours->Run(worker, span); };
}

CacheRun OurRun(const CacheWorkload& workload) {
  switch (workload.value_bytes) {
    case 8: return OursOf<ValueOf<8>>(workload);
    case 256: return OursOf<ValueOf<256>>(workload);
    default: return OursOf<ValueOf<4096>>(workload);
  }
}

#ifdef STOCKADE_BENCH_TBB
// Has lookups only; its function makes what is missing. No copies: a handle gives the value's place.
CacheRun TbbRun(const CacheWorkload& workload) {
  using Cache = tbb::concurrent_lru_cache<uint64_t, uint64_t>;
  const auto cache = std::make_shared<Cache>(
      +[](uint64_t key) { return key; }, workload.Capacity());
  for (uint64_t key = 0; key < workload.keys; ++key) (*cache)[key];
  return [=](Worker& worker, absl::Duration span) {
    return OpsPerSecond(
        worker, workload, nullptr, span, [&](uint64_t key) { KeepAlive((*cache)[key].value()); }, [](uint64_t) {});
  };
}
#endif

struct PeerRow {
  const char* name;
  CacheWorkload workload;
  std::string caffeine = "-";
};

const PeerRow kRows[] = {
    {"hit, 1 key, alone", {.keys = 1}},
    {"hit, 1 key, 2 threads", {.keys = 1, .threads = 2}, ">= 7"},
    {"hit, 1 key, 8 threads", {.keys = 1, .threads = 8}},
    {"hit, 1,024 keys, alone", {}},
    {"hit, 1,024 keys, 2 threads", {.threads = 2}, ">= 2"},
    {"hit, 1,024 keys, 4 threads", {.threads = 4}},
    {"hit, 1,024 keys, 8 threads", {.threads = 8}},
    {"hit, 1 M keys, alone", {.keys = 1 << 20}},
    {"hit, 1 M keys, 2 threads", {.keys = 1 << 20, .threads = 2}, ">= 4"},
    {"hit, 1 M keys, 8 threads", {.keys = 1 << 20, .threads = 8}},
    {"hit, 1 M keys, Zipf, 2 threads", {.keys = 1 << 20, .threads = 2, .distribution = Distribution::kZipf}},
    {"hit, 1,024 keys, 256 B, alone", {.value_bytes = 256}},
    {"hit, 1,024 keys, 256 B, 2 threads", {.threads = 2, .value_bytes = 256}},
    {"hit, 1,024 keys, 4 KiB, 2 threads", {.threads = 2, .value_bytes = 4096}},
    {"10 % writes, 1,024 keys, 2 threads", {.threads = 2, .writes_percent = 10}},
    {"50 % writes, 1,024 keys, 2 threads", {.threads = 2, .writes_percent = 50}},
};

// Makes the peer for the workload of a row.
using MakePeer = std::function<CacheRun(const CacheWorkload&, const Scale&)>;

void AddRow(Suite& suite, const PeerRow& row, const std::string& peer, size_t peer_threads, const std::string& target,
            const MakePeer& make_peer) {
  suite.Add({.name = row.name, .unit = "M/s", .peer = peer, .better = Better::kHigher, .target = target},
            {.threads = row.workload.threads,
             .peer_threads = peer_threads,
             .prepare = [workload = row.workload, make_peer](const Scale& scale) -> Contestants {
               CacheWorkload scaled = workload;
               if (scale.quick) scaled.keys = std::min<uint64_t>(scaled.keys, 1024);
               const auto ours = OurRun(scaled);
               const auto theirs = make_peer(scaled, scale);
               const auto span = scale.span;
               return {[=](Worker& worker) { return ours(worker, span) / 1e6; },
                       [=](Worker& worker) { return theirs(worker, span) / 1e6; }};
             }});
}

void AddDriverRows(Suite& suite, const std::string& name, const std::string& folder, bool has_targets) {
  const absl::StatusOr<std::string> driver = FindPeerDriver(STOCKADE_BENCH_PEERS_DIR, folder);
  if (!driver.ok()) {
    suite.LeaveOut(name, std::string(driver.status().message()));
    return;
  }
  const MakePeer make_peer = [name, driver = *driver](const CacheWorkload& workload, const Scale& scale) {
    const std::shared_ptr<PeerProcess> process = Require(StartPeerDriver(driver, workload, scale), name);
    return [name, process](Worker&, absl::Duration span) { return Require(RunPeerDriver(*process, span), name); };
  };
  for (const PeerRow& row : kRows) {
    AddRow(suite, row, name, 1, has_targets ? row.caffeine : "-", make_peer);
  }
}

}  // namespace

void AddPeerRows(Suite& suite) {
  AddDriverRows(suite, "Caffeine", "caffeine", true);
  AddDriverRows(suite, "moka", "moka", false);
#ifdef STOCKADE_BENCH_TBB
  for (const PeerRow& row : kRows) {
    const CacheWorkload& workload = row.workload;
    const bool is_plain = workload.writes_percent == 0 && workload.value_bytes == 8;
    if (!is_plain || workload.distribution != Distribution::kUniform) continue;
    AddRow(suite, row, "oneTBB LRU", workload.threads, "-",
           [](const CacheWorkload& w, const Scale&) { return TbbRun(w); });
  }
#else
  suite.LeaveOut("oneTBB LRU", "its library was not found when this was built (Debian: libtbb-dev)");
#endif
}

}  // namespace stockade::bench
