#include "high_water_mark.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "request_fingerprint.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Behind the process id, and within one sector, so that it is there as a whole or as it was.
constexpr off_t kMarkOffset = 64;
constexpr size_t kTextBytes = 128;              // Without the checksum.
constexpr size_t kMarkBytes = kTextBytes + 17;  // 16 hexadecimal digits, and a line feed.
constexpr char kMarkFormat[] = "%-12s %020" PRIu64 " session %016" PRIx64 " boot %-36.36s";

// Differs after each start of the machine. Empty: not known.
std::string CurrentBoot() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot;
}

uint64_t ChecksumOf(std::string_view text) {
  static constexpr FingerprintKey kKey = {0x53746b64, 0x6d61726b};  // Against accidents, not attackers.
  return RequestFingerprint(kKey)(text);
}

absl::Status WriteError() {
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  const absl::Status why = absl::ErrnoToStatus(errno, "cannot write the acknowledged position");
  return absl::Status(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable, why.message());
}

}  // namespace

absl::StatusOr<HighWaterMark> HighWaterMark::Read(int lock) {
  std::array<char, kMarkBytes> bytes = {};
  const ssize_t size = pread(lock, bytes.data(), bytes.size(), kMarkOffset);
  if (size < 0) return absl::UnavailableError(absl::ErrnoToStatus(errno, "cannot read its lock file").message());
  HighWaterMark mark(lock);
  // Its size without its bytes is what a power cut may leave of the first one.
  if (std::ranges::all_of(bytes, [](char byte) { return byte == '\0'; })) return mark;
  const std::string_view text(bytes.data(), kTextBytes);
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016" PRIx64, ChecksumOf(text));
  char kind[13] = {};
  char boot[37] = {};
  uint64_t session = 0;
  const std::string copy(text);
  if (static_cast<size_t>(size) != kMarkBytes || std::string_view(bytes.data() + kTextBytes, 16) != digits ||
      std::sscanf(copy.c_str(), "%12s %20" SCNu64 " session %16" SCNx64 " boot %36s", kind, &mark.position_, &session,
                  boot) < 3) {
    return absl::DataLossError(
        "the acknowledged position in its lock file is damaged, and other files may be, too. If they are in "
        "order, remove the lock file: the ledger then opens without checking that position");
  }
  mark.kind_ = std::string_view(kind) == "making" ? Kind::kMaking : Kind::kAcknowledged;
  mark.session_ = static_cast<int64_t>(session);
  mark.boot_ = boot;
  return mark;
}

bool HighWaterMark::IsExactFor(int64_t session) const {
  return kind_ == Kind::kAcknowledged && session_ == session && !boot_.empty() && boot_ == CurrentBoot();
}

bool HighWaterMark::Write() {
  std::array<char, kMarkBytes + 1> bytes;
  const int length =
      std::snprintf(bytes.data(), bytes.size(), kMarkFormat, kind_ == Kind::kMaking ? "making" : "acknowledged",
                    position_, static_cast<uint64_t>(session_), boot_.c_str());
  std::fill(bytes.begin() + length, bytes.begin() + kTextBytes, ' ');
  std::snprintf(bytes.data() + kTextBytes, bytes.size() - kTextBytes, "%016" PRIx64 "\n",
                ChecksumOf({bytes.data(), kTextBytes}));
  return pwrite(lock_, bytes.data(), kMarkBytes, kMarkOffset) == static_cast<ssize_t>(kMarkBytes);
}

absl::Status HighWaterMark::WriteMaking() {
  kind_ = Kind::kMaking;
  if (!Write()) return WriteError();
  return Sync();
}

absl::Status HighWaterMark::Begin(int64_t session, uint64_t position) {
  kind_ = Kind::kAcknowledged;
  session_ = session;
  position_ = position;
  boot_ = CurrentBoot();
  return Write() ? absl::OkStatus() : WriteError();
}

absl::Status HighWaterMark::Sync() { return fdatasync(lock_) == 0 ? absl::OkStatus() : WriteError(); }

absl::Status HighWaterMark::Advance(uint64_t position) {
  position_ = position;
  return Write() ? absl::OkStatus() : WriteError();
}

}  // namespace stockade::inventory_internal
