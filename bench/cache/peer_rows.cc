// Lookups and writes, compared with caches that others have built (Caffeine and moka in their own processes, oneTBB's
// in this one) and with the sharded LRU. All draw the same keys, have the same capacity, and expire nothing.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
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

constexpr int64_t kPeerBatch = 256;

// One run of the workload: get(key) looks a key up, put(key) writes it.
template <typename Get, typename Put>
double OpsPerSecond(Worker& worker, const CacheWorkload& workload, const CacheDraws::Zipf* zipf, absl::Duration span,
                    Get get, Put put) {
  alignas(128) CacheDraws next(workload, zipf, worker.thread());
  return worker
      .RunFor(span, kPeerBatch,
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
               [room = workload.room](const uint64_t& key, LoadContext&) -> absl::StatusOr<Value> {
                 // With exactly as much room as there are keys, a Put may evict a key while it replaces a value.
                 if (room == Room::kExact) return MakeValue<Value>(key);
                 return absl::InternalError("a miss");
               }) {
    for (uint64_t number = 0; number < workload.keys; ++number) Put(workload.KeyOf(number));
  }

  double Run(Worker& worker, absl::Duration span) {
    return OpsPerSecond(
        worker, workload_, zipf_.empty() ? nullptr : &zipf_, span,
        [this](uint64_t key) { KeepAlive(FirstWord(*cache_.Get(key).value())); }, [this](uint64_t key) { Put(key); });
  }

 private:
  void Put(uint64_t key) { cache_.Put(key, MakeValue<Value>(key)); }

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

CacheRun LruRun(const CacheWorkload& workload) {
  const auto cache = std::make_shared<ShardedLru<uint64_t>>(workload.Capacity());
  for (uint64_t number = 0; number < workload.keys; ++number) {
    cache->Put(workload.KeyOf(number), workload.KeyOf(number));
  }
  return [=](Worker& worker, absl::Duration span) {
    return OpsPerSecond(
        worker, workload, nullptr, span, [&](uint64_t key) { KeepAlive(cache->Get(key).value()); },
        [&](uint64_t key) { cache->Put(key, key); });
  };
}

#ifdef STOCKADE_BENCH_TBB
// Has lookups only; its function makes what is missing. No copies: a handle gives the value's place.
CacheRun TbbRun(const CacheWorkload& workload) {
  using Cache = tbb::concurrent_lru_cache<uint64_t, uint64_t>;
  const auto cache = std::make_shared<Cache>(
      +[](uint64_t key) { return key; }, workload.Capacity());
  for (uint64_t number = 0; number < workload.keys; ++number) (*cache)[workload.KeyOf(number)];
  return [=](Worker& worker, absl::Duration span) {
    return OpsPerSecond(
        worker, workload, nullptr, span, [&](uint64_t key) { KeepAlive((*cache)[key].value()); }, [](uint64_t) {});
  };
}
#endif

constexpr char kNoRow[] = "";

// The targets, or kNoRow. The sharded LRU has the other rows without writes in hit_rows.cc.
struct PeerRow {
  const char* name;
  CacheWorkload workload;
  std::string caffeine = "-";
  std::string full_caffeine = kNoRow;
  std::string lru = kNoRow;
};

constexpr CacheWorkload Random(size_t threads) { return {.threads = threads, .key_kind = KeyKind::kRandom}; }
constexpr CacheWorkload HotKey(size_t threads) {
  return {.threads = threads, .distribution = Distribution::kHotKey, .key_kind = KeyKind::kRandom};
}

const PeerRow kRows[] = {
    {"hit, 1 key, alone", {.keys = 1}, "-", "-"},
    {"hit, 1 key, 2 threads", {.keys = 1, .threads = 2}, ">= 7", "-"},
    {"hit, 1 key, 8 threads", {.keys = 1, .threads = 8}},
    {"hit, hot key of 1,024, alone", HotKey(1), "-", "-", "-"},
    {"hit, hot key of 1,024, 2 threads", HotKey(2), "-", "-", "-"},
    {"hit, 1,024 keys, alone", {}, "-", "-"},
    {"hit, 1,024 keys, 2 threads", {.threads = 2}, ">= 2", "-"},
    {"hit, 1,024 keys, 4 threads", {.threads = 4}},
    {"hit, 1,024 keys, 8 threads", {.threads = 8}},
    {"hit, 1,024 random keys, alone", Random(1), "-", "-", "-"},
    {"hit, 1,024 random keys, 2 threads", Random(2), "-", "-", "-"},
    {"hit, 1 M keys, alone", {.keys = 1 << 20}},
    {"hit, 1 M keys, 2 threads", {.keys = 1 << 20, .threads = 2}, ">= 4"},
    {"hit, 1 M keys, 8 threads", {.keys = 1 << 20, .threads = 8}},
    {"hit, 1 M keys, Zipf, 2 threads", {.keys = 1 << 20, .threads = 2, .distribution = Distribution::kZipf}},
    {"hit, 1,024 keys, 256 B, alone", {.value_bytes = 256}},
    {"hit, 1,024 keys, 256 B, 2 threads", {.threads = 2, .value_bytes = 256}, ">= 1", "-"},
    {"hit, 1,024 keys, 4 KiB, 2 threads", {.threads = 2, .value_bytes = 4096}},
    {"10 % writes, 1,024 keys, 2 threads", {.threads = 2, .writes_percent = 10}, "-", ">= 0.8", ">= 1.5"},
    {"50 % writes, 1,024 keys, 2 threads", {.threads = 2, .writes_percent = 50}, "-", "-", ">= 1"},
    {"10 % writes, 1 M keys, 2 threads", {.keys = 1 << 20, .threads = 2, .writes_percent = 10}, "-", "-", ">= 1.5"},
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

// `target` returns the target of a row, or kNoRow.
using TargetOf = std::function<std::string(const PeerRow& row)>;

void AddDriverRows(Suite& suite, const std::string& name, const std::string& folder, Room room,
                   const TargetOf& target) {
  const absl::StatusOr<std::string> driver = FindPeerDriver(STOCKADE_BENCH_PEERS_DIR, folder);
  if (!driver.ok()) {
    suite.LeaveOut(name, std::string(driver.status().message()));
    return;
  }
  const MakePeer make_peer = [name, driver = *driver](const CacheWorkload& workload, const Scale& scale) {
    const std::shared_ptr<PeerProcess> process = Require(StartPeerDriver(driver, workload, scale), name);
    return [name, process](Worker&, absl::Duration span) { return Require(RunPeerDriver(*process, span), name); };
  };
  for (PeerRow row : kRows) {
    row.workload.room = room;
    if (target(row) != kNoRow) AddRow(suite, row, name, 1, target(row), make_peer);
  }
}

}  // namespace

void AddPeerRows(Suite& suite) {
  for (const PeerRow& row : kRows) {
    if (row.lru == kNoRow) continue;
    AddRow(suite, row, "sharded LRU, mutexes", row.workload.threads, row.lru,
           [](const CacheWorkload& workload, const Scale&) { return LruRun(workload); });
  }
  AddDriverRows(suite, "Caffeine", "caffeine", Room::kAmple, [](const PeerRow& row) { return row.caffeine; });
  AddDriverRows(suite, "Caffeine, policy on", "caffeine", Room::kExact,
                [](const PeerRow& row) { return row.full_caffeine; });
  AddDriverRows(suite, "moka", "moka", Room::kAmple, [](const PeerRow&) { return "-"; });
#ifdef STOCKADE_BENCH_TBB
  for (const PeerRow& row : kRows) {
    const CacheWorkload& workload = row.workload;
    const bool is_plain = workload.writes_percent == 0 && workload.value_bytes == 8;
    if (!is_plain || workload.distribution == Distribution::kZipf) continue;
    AddRow(suite, row, "oneTBB LRU", workload.threads, "-",
           [](const CacheWorkload& w, const Scale&) { return TbbRun(w); });
  }
#else
  suite.LeaveOut("oneTBB LRU", "its library was not found when this was built (Debian: libtbb-dev)");
#endif
}

}  // namespace stockade::bench
