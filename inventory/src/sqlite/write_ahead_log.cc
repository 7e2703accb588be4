// How a damaged log is distinguished from one that a crash has left.
//
// SQLite reads frames up to the first whose salts or checksum do not fit, takes the transactions that end before it,
// and drops the rest without an error. That is right after a power cut, where the rest is one transaction whose sync
// had not returned. It is wrong where a bit has changed in the middle: then the rest was acknowledged.
//
// A ledger writes the frames of a transaction, the last of which has the size of the database in its header (it is the
// "commit frame"), syncs them, and only then writes the next frame. The header of a generation is synced before its
// first frame. A log is begun with new salts whenever a ledger is opened, so no frame of an earlier life has the salts.
// Hence a crash leaves, behind the frames that were synced,
//   - frames of one transaction, each sector of them new or as it was before, in any combination, with the salts;
//   - frames of an earlier generation, with other salts;
//   - frames of transactions that were rolled back for want of room, with the salts, but without a commit frame that is
//     followed by anything.
// It never leaves a frame that goes on from a commit frame, when that commit frame lies at or behind the first one that
// does not fit. Such a pair says that the commit was synced, so a transaction that was durable is damaged. A frame
// "goes on" when its checksum is right if continued from the one stored in the frame before it. Whether that one is a
// commit frame is believed if its own checksum goes on likewise; or if its header lies in one sector, which is new as a
// whole because the salts in it are. What this cannot see is damage in the last transaction, or in the whole rest of
// the log: see high_water_mark.h.
#include "write_ahead_log.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

constexpr uint32_t kMagic = 0x377f0682;  // The last bit: big-endian checksums.
constexpr uint32_t kFormat = 3007000;
constexpr int64_t kSectorBytes = 512;

void WriteBigEndian(unsigned char* bytes, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<unsigned char>(value >> (24 - 8 * i));
}

template <bool kBigEndian>
LogChecksum ExtendBy(LogChecksum checksum, const unsigned char* bytes, size_t size) {
  const auto read = [](const unsigned char* word) {
    return kBigEndian ? ReadBigEndian(word) : __builtin_bswap32(ReadBigEndian(word));
  };
  for (size_t i = 0; i < size; i += 8) {
    checksum.first += read(bytes + i) + checksum.second;
    checksum.second += read(bytes + i + 4) + checksum.first;
  }
  return checksum;
}

// One frame after the other.
class LogScan {
 public:
  explicit LogScan(const LogHeader& header) : header_(header), before_(header.checksum) {}

  // True: this frame proves that a durable transaction is damaged.
  bool Next(const unsigned char* frame) {
    ++number_;
    const bool has_salts =
        ReadBigEndian(frame + 8) == header_.salts[0] && ReadBigEndian(frame + 12) == header_.salts[1];
    const LogChecksum stored = ReadLogChecksum(frame + 16);
    const bool goes_on = has_salts && header_.OfFrame(before_, frame, frame + kFrameHeaderBytes) == stored;
    if (first_broken_ == 0 && !goes_on) first_broken_ = number_;
    if (goes_on && after_commit_) return true;
    const bool is_commit = has_salts && ReadBigEndian(frame + 4) != 0;
    after_commit_ = first_broken_ != 0 && is_commit && (goes_on || HeaderIsInOneSector());
    before_ = stored;
    return false;
  }

  int64_t first_broken() const { return first_broken_; }
  int64_t number() const { return number_; }

 private:
  bool HeaderIsInOneSector() const {
    const int64_t begin = FrameOffset(number_);
    return begin / kSectorBytes == (begin + kFrameHeaderBytes - 1) / kSectorBytes;
  }

  const LogHeader& header_;
  LogChecksum before_;  // Stored in the frame before.
  int64_t number_ = 0;
  int64_t first_broken_ = 0;   // 0: none yet.
  bool after_commit_ = false;  // The frame before is a commit frame at or behind first_broken_.
};

}  // namespace

uint32_t ReadBigEndian(const unsigned char* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

LogChecksum ReadLogChecksum(const unsigned char* bytes) { return {ReadBigEndian(bytes), ReadBigEndian(bytes + 4)}; }

void WriteLogChecksum(unsigned char* bytes, LogChecksum checksum) {
  WriteBigEndian(bytes, checksum.first);
  WriteBigEndian(bytes + 4, checksum.second);
}

LogChecksum LogHeader::Extend(LogChecksum checksum, const unsigned char* bytes, size_t size) const {
  return big_endian ? ExtendBy<true>(checksum, bytes, size) : ExtendBy<false>(checksum, bytes, size);
}

std::optional<LogHeader> LogHeader::Parse(const unsigned char* bytes) {
  const uint32_t magic = ReadBigEndian(bytes);
  if ((magic & ~1u) != kMagic || ReadBigEndian(bytes + 4) != kFormat || ReadBigEndian(bytes + 8) != kPageBytes) {
    return std::nullopt;
  }
  LogHeader header{.big_endian = (magic & 1) != 0,
                   .salts = {ReadBigEndian(bytes + 16), ReadBigEndian(bytes + 20)},
                   .checksum = ReadLogChecksum(bytes + 24)};
  if (header.Extend({}, bytes, 24) != header.checksum) return std::nullopt;
  return header;
}

absl::StatusOr<LogState> CheckLog(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr && errno == ENOENT) return LogState::kMissing;
  const auto failed = [&path] { return absl::ErrnoToStatus(errno, Concat("cannot read '", path, "'")); };
  if (file == nullptr) return failed();
  std::vector<unsigned char> bytes(kFrameBytes);
  const size_t header_bytes = std::fread(bytes.data(), 1, kLogHeaderBytes, file.get());
  if (std::ferror(file.get()) != 0) return failed();
  if (header_bytes == 0) return LogState::kEmpty;
  if (header_bytes < kLogHeaderBytes) return LogState::kNoHeader;
  const std::optional<LogHeader> header = LogHeader::Parse(bytes.data());
  if (!header.has_value()) return LogState::kNoHeader;
  LogScan scan(*header);
  while (std::fread(bytes.data(), 1, kFrameBytes, file.get()) == kFrameBytes) {
    if (!scan.Next(bytes.data())) continue;
    return absl::DataLossError(Concat("the write-ahead log '", path, "' is damaged: frame ", scan.first_broken(),
                                      " is invalid, but frame ", scan.number(), " belongs to a later transaction"));
  }
  if (std::ferror(file.get()) != 0) return failed();
  return scan.number() == 0 ? LogState::kNoHeader : LogState::kReadable;
}

}  // namespace stockade::inventory_internal
