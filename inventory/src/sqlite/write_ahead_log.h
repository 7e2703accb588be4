#ifndef STOCKADE_INVENTORY_WRITE_AHEAD_LOG_H_
#define STOCKADE_INVENTORY_WRITE_AHEAD_LOG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "checksum_vfs.h"

namespace stockade::inventory_internal {

// SQLite's write-ahead log, https://sqlite.org/fileformat2.html#the_write_ahead_log: a header, then frames, each a
// header and a page.
inline constexpr int kLogHeaderBytes = 32;
inline constexpr int kFrameHeaderBytes = 24;
inline constexpr int kFrameBytes = kFrameHeaderBytes + kPageBytes;

// Offset of frame `number`, from 1.
inline constexpr int64_t FrameOffset(int64_t number) { return kLogHeaderBytes + (number - 1) * kFrameBytes; }

// Of the header, or of a frame; a frame's goes on from that of the one before it.
struct LogChecksum {
  uint32_t first = 0;
  uint32_t second = 0;
  bool operator==(const LogChecksum&) const = default;
};

struct LogHeader {
  bool big_endian = false;  // How checksums read the bytes.
  uint32_t salts[2] = {};   // In each frame of this generation of the log.
  LogChecksum checksum;

  // Nothing: no SQLite has written these kLogHeaderBytes for pages of kPageBytes.
  static std::optional<LogHeader> Parse(const unsigned char* bytes);

  // `checksum` continued by `size` bytes, a multiple of 8.
  LogChecksum Extend(LogChecksum checksum, const unsigned char* bytes, size_t size) const;
  // That of a frame after the one with `before`; only 8 bytes of its header count.
  LogChecksum OfFrame(LogChecksum before, const unsigned char* header, const unsigned char* page) const {
    return Extend(Extend(before, header, 8), page, kPageBytes);
  }
};

uint32_t ReadBigEndian(const unsigned char* bytes);
LogChecksum ReadLogChecksum(const unsigned char* bytes);
void WriteLogChecksum(unsigned char* bytes, LogChecksum checksum);

// What a file is as a log.
enum class LogState : uint8_t {
  kMissing,   // There is none.
  kEmpty,     // No byte.
  kNoHeader,  // No header that can be read, or no frame: SQLite takes nothing from it.
  kReadable,
};

// Reads the log at `path`, and changes nothing. DataLoss: a transaction in it that had been synced is damaged; the text
// says where. O(size).
absl::StatusOr<LogState> CheckLog(const std::string& path);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_WRITE_AHEAD_LOG_H_
