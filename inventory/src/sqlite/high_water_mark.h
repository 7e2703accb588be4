#ifndef STOCKADE_INVENTORY_HIGH_WATER_MARK_H_
#define STOCKADE_INVENTORY_HIGH_WATER_MARK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stockade::inventory_internal {

// How far the journal had been acknowledged. The mark is kept beside the ledger, in its lock file. It shows that a
// ledger file or log that ends before the mark has lost orders. It is written after each commit, before any caller is
// notified, and synced with each checkpoint. It is never ahead of what is durable. After a kill it is exact; after a
// power cut it may lag, so that a loss may be missed but none is reported wrongly. The mark is overwritten in place on
// the disk, so it needs no room. For one thread at a time.
class HighWaterMark {
 public:
  enum class Kind : uint8_t {
    kNone,    // Nobody has written one.
    kMaking,  // A new ledger was being made, which may be there in part or not at all.
    kAcknowledged,
  };

  // `lock`: the open file, which must outlive this. DataLoss: what stands there is damaged.
  static absl::StatusOr<HighWaterMark> Read(int lock);

  Kind kind() const { return kind_; }
  // The last position of the journal that may have been acknowledged.
  uint64_t position() const { return position_; }
  // Whether position() is exactly that of the life of the ledger which called itself `session`: since then the machine
  // has not restarted.
  bool IsExactFor(int64_t session) const;

  // Unavailable, or ResourceExhausted. WriteMaking() syncs it, too.
  absl::Status WriteMaking();
  absl::Status Begin(int64_t session, uint64_t position);
  absl::Status Sync();

  // After Begin(). Some 1.5 us. After an error IsExactFor() may be wrong, so nothing up to `position` may be
  // acknowledged.
  absl::Status Advance(uint64_t position);

 private:
  explicit HighWaterMark(int lock) : lock_(lock) {}

  bool Write();

  int lock_;
  Kind kind_ = Kind::kNone;
  uint64_t position_ = 0;
  int64_t session_ = 0;
  std::string boot_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_HIGH_WATER_MARK_H_
