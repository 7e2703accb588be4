#ifndef STOCKADE_TESTS_CACHE_FLEET_FLEET_TABLES_H_
#define STOCKADE_TESTS_CACHE_FLEET_FLEET_TABLES_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

inline constexpr int kFleetKeys = 8;
inline constexpr int64_t kFleetVersions = 1 << 14;
inline constexpr uint32_t kFleetRecords = 1 << 19;

// The settings of the caches under test, in nanoseconds.
inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kFleetTtl = 2'000 * kMillisecond;
inline constexpr int64_t kFleetStaleness = 1'000 * kMillisecond;
inline constexpr int64_t kFleetTimeout = 200 * kMillisecond;
inline constexpr int64_t kFleetLease = 400 * kMillisecond;
// The cache reads the coarse clock, and Redis counts milliseconds.
inline constexpr int64_t kFleetTick = 20 * kMillisecond;

inline constexpr int64_t kNever = INT64_MAX;

// The clock of all processes, in nanoseconds.
inline int64_t FleetNow() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// How a run is broken, to show that the checker notices it.
enum class Breakage {
  kNone,
  kDeaf,       // Invalidations by other processes are not reported to the cache.
  kGreedy,     // A key that another process loads is loaded nevertheless.
  kImpatient,  // Redis is never asked, and what is loaded without it is kept for a moment only.
  kWaitsOnce,  // An update of a strict cache does not wait again if its mark was lost.
};

// Something that a process, or the test, did to a key.
struct FleetRecord {
  enum class Kind : int32_t {
    kGrant,         // A question that was answered with a lease. Ends with its fill, or without.
    kPut,           // A value that was stored without a load.
    kInvalidation,  // Ends when Redis has accepted it.
    kReign,         // The test has destroyed the state in Redis.
  };
  static constexpr int32_t kAllKeys = -1;

  static const char* NameOf(Kind kind) {
    switch (kind) {
      case Kind::kGrant: return "load";
      case Kind::kPut: return "put";
      case Kind::kInvalidation: return "invalidation";
      case Kind::kReign: return "lost state";
    }
    return "?";
  }

  std::atomic<Kind> kind;
  std::atomic<int32_t> key;
  std::atomic<int32_t> process;
  std::atomic<bool> written;  // The fields before this one.
  std::atomic<int64_t> begin;
  std::atomic<int64_t> answered;    // kGrant: when the answer came.
  std::atomic<int64_t> fill_begin;  // kGrant and kPut: just before a fill that was stored. 0: nothing was stored.
  std::atomic<int64_t> end;         // 0: not yet, or it was killed before.
};

// What a run may choose.
struct FleetSettings {
  int64_t ttl = kFleetTtl;           // In nanoseconds.
  int64_t bound = kFleetStaleness;   // How old a read may be, in nanoseconds; the max_staleness of a strict cache.
  uint64_t batches_per_write = 200;  // Of each thread that writes.
};

// What all processes of a fleet share, in a file that they map, so that a killed process leaves it as it is. Begins as
// zeros.
struct FleetTables {
  FleetSettings settings;  // The test writes them before the processes begin.

  // The database: the version of each key.
  std::atomic<int64_t> version[kFleetKeys];
  // Of a strict cache: the newest version whose update was settled.
  std::atomic<int64_t> settled[kFleetKeys];
  // When Redis had accepted an invalidation that was made after this version had been written. 0: not known.
  std::atomic<int64_t> invalidated_at[kFleetKeys][kFleetVersions];

  std::atomic<int64_t> operations;
  std::atomic<int64_t> loads;
  std::atomic<int64_t> granted;
  std::atomic<int64_t> away;
  std::atomic<int64_t> hits;        // Of the second level.
  std::atomic<int64_t> updates;     // Of strict caches, that were settled.
  std::atomic<int64_t> marks_lost;  // Of such updates.
  std::atomic<int64_t> violations;
  std::atomic<int64_t> old_reads;  // Those of the violations that are reads beyond the bound.
  std::atomic<int64_t> oldest;     // Of the reads, in nanoseconds.
  std::atomic<int32_t> ready;      // Processes that have begun.
  std::atomic<bool> stop;

  std::atomic<uint32_t> record_count;
  FleetRecord records[kFleetRecords];

  static FleetTables* Map(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(FleetTables)) != 0) base_internal::Fatal("cannot create " + path);
    void* const mapped = mmap(nullptr, sizeof(FleetTables), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) base_internal::Fatal("cannot map " + path);
    return static_cast<FleetTables*>(mapped);
  }

  FleetRecord& Add(FleetRecord::Kind kind, int32_t key, int32_t process, int64_t begin) {
    const uint32_t at = record_count++;
    if (at >= kFleetRecords) base_internal::Fatal("too many records for one run");
    FleetRecord& record = records[at];
    record.kind = kind;
    record.key = key;
    record.process = process;
    record.begin = begin;
    record.answered = begin;
    record.written = true;
    return record;
  }

  // How long before `begin` Redis had accepted the first invalidation of what a lookup saw that began then; or 0.
  int64_t AgeOf(int key, int64_t version_seen, int64_t begin) const {
    int64_t age = 0;
    for (int64_t newer = version[key]; newer > version_seen; --newer) {
      const int64_t at = invalidated_at[key][newer];
      if (at != 0) age = std::max(age, begin - at);
    }
    return age;
  }
  // Notes the age of a read. Returns whether the read may be so old.
  bool NoteAge(int64_t age) {
    for (int64_t old = oldest; old < age && !oldest.compare_exchange_weak(old, age);) {
    }
    if (age < settings.bound + kFleetTick) return true;
    ++old_reads;
    return false;
  }
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_FLEET_FLEET_TABLES_H_
