#ifndef STOCKADE_INVENTORY_SQLITE_CHECKSUM_VFS_H_
#define STOCKADE_INVENTORY_SQLITE_CHECKSUM_VFS_H_

#include <sqlite3.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stockade::inventory_internal {

inline constexpr int kPageBytes = 4096;
inline constexpr int kPageChecksumBytes = 8;  // The last ones of a page. SQLite leaves them alone: "reserved bytes".

// Whether a ledger's file is complete without its write-ahead log. Page 1 of the file says so: its checksum is computed
// in one of two ways.
enum class LogNeed : uint8_t { kNone, kNeedsLog };

// The checksum of page `number` of a ledger's file. The number is part of it, so that a page in another's place is
// found. Each step is a bijection of the running value, so every change that is confined to one word of 8 bytes changes
// the result; any other change leaves it the same with a chance of 2^-64. 0.3 us.
inline uint64_t PageChecksum(const unsigned char* page, uint32_t number, LogNeed need = LogNeed::kNone) {
  constexpr size_t kLanes = 4;
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // Odd.
  const auto mix = [](uint64_t value, uint64_t word) {
    value = (value ^ word) * kFactor;
    return value ^ value >> 32;
  };
  const auto word = [page](size_t index) {
    uint64_t value = 0;
    std::memcpy(&value, page + index * 8, 8);
    if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
    return value;
  };
  uint64_t lanes[kLanes] = {number, uint64_t{number} << 32 | 1, need == LogNeed::kNone ? 3u : 4u, 5};
  constexpr size_t kWords = (kPageBytes - kPageChecksumBytes) / 8;
  size_t index = 0;
  for (; index + kLanes <= kWords; index += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], word(index + lane));
  }
  for (; index < kWords; ++index) lanes[0] = mix(lanes[0], word(index));
  uint64_t sum = kWords;
  for (const uint64_t lane : lanes) sum = mix(sum, lane);
  return sum;
}

inline void WritePageChecksum(unsigned char* page, uint64_t checksum) {
  for (int i = 0; i < kPageChecksumBytes; ++i) {
    page[kPageBytes - kPageChecksumBytes + i] = static_cast<unsigned char>(checksum >> (8 * i));
  }
}

inline uint64_t ReadPageChecksum(const unsigned char* page) {
  uint64_t checksum = 0;
  for (int i = kPageChecksumBytes; i-- > 0;) checksum = checksum << 8 | page[kPageBytes - kPageChecksumBytes + i];
  return checksum;
}

inline bool PageIsIntact(const unsigned char* page, uint32_t number) {
  const uint64_t checksum = ReadPageChecksum(page);
  return checksum == PageChecksum(page, number) ||
         (number == 1 && checksum == PageChecksum(page, 1, LogNeed::kNeedsLog));
}

// A layer between SQLite and its default VFS that gives each page of a ledger's file a checksum, in the bytes that
// SQLite reserves for such uses, and checks it whenever SQLite reads the page: a page that does not fit is
// SQLITE_IOERR_DATA. The file remains one that every SQLite reads.
//
// Pages in the write-ahead log have their checksums, too, so that it does not matter who moves them into the file: us,
// or sqlite3's shell. SQLite computes the log's own checksums before this layer is called, so it computes them again;
// it writes a frame's header together with the page, in one call instead of two.
//
// It offers neither shared memory nor memory maps: locking_mode must be EXCLUSIVE. Whichever VFS is the default when a
// file is opened is the one below.
struct ChecksumVfs {
  // Its name, for sqlite3_open_v2(). Registers it when called first. Thread-safe.
  static const char* Name();

  // From now on pages of the connection's file have checksums; `need` is what page 1 says on the disk. Before the first
  // read. Without this call the layer changes and checks nothing.
  static void Enable(sqlite3* connection, LogNeed need);

  // Writes into page 1 what it is to say of the log, and syncs the file. What is torn of that by a crash leaves a page
  // 1 that does not fit, unless the log has it: each generation of the log must.
  static int SetLogNeed(sqlite3* connection, LogNeed need);

  // The page that was found damaged last; 0: none.
  static uint32_t DamagedPage(sqlite3* connection);
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_CHECKSUM_VFS_H_
