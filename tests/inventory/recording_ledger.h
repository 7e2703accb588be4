#ifndef STOCKADE_TESTS_INVENTORY_RECORDING_LEDGER_H_
#define STOCKADE_TESTS_INVENTORY_RECORDING_LEDGER_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "stockade/inventory/ledger.h"

namespace stockade::testing {

// A disk in memory: outlives the ledgers that write to it, and can be held up or broken. Thread-safe.
struct RecordingDisk {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<LedgerRecord> journal;  // Durable up to `durable`; guarded by mutex, as all below.
  uint64_t fail_at = UINT64_MAX;      // Position from which on nothing becomes durable, and waiting for it fails.
  bool held_up = false;               // While true nothing new becomes durable.
  uint64_t durable = 0;
  int waiting = 0;  // Callers blocked in AwaitDurable().

  void HoldUp(bool hold) {
    std::lock_guard lock(mutex);
    held_up = hold;
    Settle();
  }
  void Settle() {
    if (!held_up) durable = std::min<uint64_t>(journal.size(), fail_at - 1);
    changed.notify_all();
  }
  void AwaitWaiting(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting >= count; });
  }
  // A crash and a repair: what was not durable is gone.
  void Crash() {
    std::lock_guard lock(mutex);
    journal.resize(durable);
    fail_at = UINT64_MAX;
    held_up = false;
  }
  std::vector<LedgerRecord> Journal() {
    std::lock_guard lock(mutex);
    return journal;
  }
};

// The effect of `journal`, and a check that every prefix of it covers what was taken.
struct Replayed {
  LedgerState state;
  bool never_oversold = true;
};

inline Replayed Replay(const std::vector<LedgerRecord>& journal) {
  std::map<std::string, LedgerState::Sku> skus;
  std::map<std::string, int64_t> available;
  std::map<uint64_t, LedgerState::Order> orders;
  Replayed replayed;
  for (const LedgerRecord& record : journal) {
    using Kind = LedgerRecord::Kind;
    const bool grants = record.kind == Kind::kReserve || record.kind == Kind::kTake;
    if (record.kind == Kind::kAddSku) {
      skus[record.sku] = {record.sku, record.quantity, record.shards, record.per_buyer_limit};
      available[record.sku] = record.quantity;
    } else if (record.kind == Kind::kRestock) {
      skus.at(record.sku).granted += record.quantity;
      available[record.sku] += record.quantity;
    } else if (grants) {
      available[record.sku] -= record.quantity;
      replayed.never_oversold &= available[record.sku] >= 0 && skus.contains(record.sku);
      orders[record.order_id] = {.order_id = record.order_id,
                                 .request_id = record.request_id,
                                 .sku = record.sku,
                                 .quantity = record.quantity,
                                 .buyer = record.buyer,
                                 .state = record.kind == Kind::kTake ? OrderState::kSold : OrderState::kHeld,
                                 .reserved = record.kind == Kind::kReserve,
                                 .expires_at = record.expires_at,
                                 .ttl = record.ttl};
    } else {
      LedgerState::Order& order = orders.at(record.order_id);
      replayed.never_oversold &= order.state == OrderState::kHeld;
      order.state = record.kind == Kind::kCommit   ? OrderState::kSold
                    : record.kind == Kind::kCancel ? OrderState::kCancelled
                                                   : OrderState::kExpired;
      if (record.kind != Kind::kCommit) available[order.sku] += order.quantity;
    }
  }
  for (auto& [name, sku] : skus) replayed.state.skus.push_back(sku);
  for (auto& [id, order] : orders) replayed.state.orders.push_back(order);
  return replayed;
}

class RecordingLedger final : public Ledger {
 public:
  explicit RecordingLedger(std::shared_ptr<RecordingDisk> disk) : disk_(std::move(disk)) {}

  LedgerState TakeRecovered() override { return Replay(disk_->Journal()).state; }

  uint64_t Append(LedgerRecord record) override {
    std::lock_guard lock(disk_->mutex);
    disk_->journal.push_back(std::move(record));
    disk_->Settle();
    return disk_->journal.size();
  }

  absl::Status AwaitDurable(uint64_t position) override {
    std::unique_lock lock(disk_->mutex);
    ++disk_->waiting;
    disk_->changed.notify_all();
    disk_->changed.wait(lock, [&] { return position >= disk_->fail_at || disk_->durable >= position; });
    --disk_->waiting;
    return disk_->durable >= position ? absl::OkStatus() : Broken();
  }

  absl::Status Health() const override {
    std::lock_guard lock(disk_->mutex);
    return disk_->journal.size() >= disk_->fail_at ? Broken() : absl::OkStatus();
  }

 private:
  static absl::Status Broken() { return absl::UnavailableError("the disk is broken"); }

  const std::shared_ptr<RecordingDisk> disk_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_RECORDING_LEDGER_H_
