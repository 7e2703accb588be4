#ifndef STOCKADE_TESTS_INVENTORY_RECORDING_LEDGER_H_
#define STOCKADE_TESTS_INVENTORY_RECORDING_LEDGER_H_

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/inventory/ledger.h"

namespace stockade::testing {

// A disk in memory: outlives the ledgers that write to it, and can be held up or broken. Thread-safe.
struct RecordingDisk {
  using Done = absl::AnyInvocable<void(absl::Status)>;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<LedgerRecord> journal;  // Durable up to `durable`; guarded by mutex, as all below.
  uint64_t fail_at = UINT64_MAX;      // Position from which on nothing becomes durable, and waiting for it fails.
  bool held_up = false;               // While true nothing new becomes durable.
  uint64_t durable = 0;
  const Clock* clock = Clock::System();      // Of `written_at`.
  std::vector<absl::Time> written_at;        // Of `journal`, as far as it was appended.
  int waiting = 0;                           // Callers blocked in AwaitDurable().
  std::multimap<uint64_t, Done> to_be_told;  // By position: neither durable nor broken.

  static absl::Status Broken() { return absl::UnavailableError("the disk is broken"); }
  bool Known(uint64_t position) const { return position <= durable || position >= fail_at; }

  // Calls back, on this thread, all that this settles.
  void HoldUp(bool hold) {
    std::unique_lock lock(mutex);
    held_up = hold;
    Settle(lock);
  }
  // The methods below want the mutex locked through `lock`, and unlock it.
  void Settle(std::unique_lock<std::mutex>& lock) {
    if (!held_up) durable = std::min<uint64_t>(journal.size(), fail_at - 1);
    changed.notify_all();
    Tell(lock, [this](uint64_t position) { return Known(position); });
  }
  // Calls back those of to_be_told whom `whom` picks, lowest first, up to the first whom it does not.
  void Tell(std::unique_lock<std::mutex>& lock, const std::function<bool(uint64_t)>& whom) {
    std::vector<std::pair<Done, absl::Status>> calls;
    while (!to_be_told.empty() && whom(to_be_told.begin()->first)) {
      const auto first = to_be_told.begin();
      calls.emplace_back(std::move(first->second), first->first <= durable ? absl::OkStatus() : Broken());
      to_be_told.erase(first);
    }
    lock.unlock();
    for (auto& [done, outcome] : calls) done(outcome);
  }

  void AwaitWaiting(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting >= count; });
  }
  // A crash and a repair: what was not durable is gone.
  void Crash() {
    std::unique_lock lock(mutex);
    journal.resize(durable);
    written_at.resize(durable, clock->WallNow());
    fail_at = UINT64_MAX;
    held_up = false;
    Tell(lock, [](uint64_t) { return true; });
  }
  std::vector<LedgerRecord> Journal() {
    std::lock_guard lock(mutex);
    return journal;
  }
};

// The effect of a journal, and a check that every prefix of it covers what was taken.
struct Replayed {
  LedgerState state = {};
  bool never_oversold = true;
};

class Replayer {
 public:
  // `at`: when it was written.
  void Apply(const LedgerRecord& record, absl::Time at) {
    using Kind = LedgerRecord::Kind;
    const bool basket = record.kind == Kind::kReserveBasket;
    const bool is_of_held = record.kind == Kind::kCommit || record.kind == Kind::kCancel ||
                            record.kind == Kind::kExpire || record.kind == Kind::kExtend;
    const bool is_return = record.kind == Kind::kReturn || record.kind == Kind::kWriteOff;
    Expect(basket || is_return ? !record.lines.empty() : record.lines.size() == (is_of_held ? 0 : 1));
    const OrderLine line = record.lines.empty() ? OrderLine{} : record.lines[0];
    switch (record.kind) {
      case Kind::kAddSku: {
        const LedgerState::Sku sku{line.sku, line.quantity, record.shards, record.per_buyer_limit};
        Expect(skus_.emplace(line.sku, sku).second);
        available_[line.sku] = line.quantity;
        break;
      }
      case Kind::kRestock:
        Expect(!skus_.at(line.sku).removed);
        skus_.at(line.sku).granted += line.quantity;
        available_[line.sku] += line.quantity;
        if (!record.request_id.empty()) {
          Expect(std::ranges::count(restocks_, record.request_id, &LedgerState::Restock::request_id) == 0);
          restocks_.push_back({record.order_id, record.request_id, line.sku, line.quantity, at});
        }
        break;
      case Kind::kRemoveSku:
        Expect(!skus_.at(line.sku).removed && available_[line.sku] == line.quantity);
        skus_.at(line.sku).removed = true;
        skus_.at(line.sku).granted -= line.quantity;
        available_[line.sku] = 0;
        break;
      case Kind::kReserve:
      case Kind::kTake:
      case Kind::kReserveBasket: Grant(record, at); break;
      case Kind::kCommit: Settle(record.order_id, OrderState::kSold, at); break;
      case Kind::kCancel: Settle(record.order_id, OrderState::kCancelled, at); break;
      case Kind::kExpire: Settle(record.order_id, OrderState::kExpired, at); break;
      case Kind::kExtend: {
        LedgerState::Order& order = orders_.at(record.order_id);
        Expect(order.state == OrderState::kHeld && order.extended == record.extended_before);
        Expect(record.extended > record.extended_before);
        order.extended = record.extended;
        break;
      }
      case Kind::kReturn:
      case Kind::kWriteOff: TakeBack(record, at); break;
    }
  }

  Replayed Result() const {
    Replayed replayed{.never_oversold = right_};
    replayed.state.restocks = restocks_;
    for (const auto& [name, sku] : skus_) replayed.state.skus.push_back(sku);
    for (const auto& [id, order] : orders_) replayed.state.orders.push_back(order);
    replayed.state.changes = changes_;
    return replayed;
  }

 private:
  void Expect(bool holds) { right_ &= holds; }

  void Grant(const LedgerRecord& record, absl::Time at) {
    std::set<std::string> seen;
    for (const OrderLine& line : record.lines) {
      available_[line.sku] -= line.quantity;
      Expect(skus_.contains(line.sku) && !skus_[line.sku].removed && available_[line.sku] >= 0);
      Expect(line.quantity > 0 && seen.insert(line.sku).second);
    }
    const bool taken = record.kind == LedgerRecord::Kind::kTake;
    LedgerState::Order order{.order_id = record.order_id,
                             .kind = record.kind,
                             .request_id = record.request_id,
                             .lines = record.lines,
                             .buyer = record.buyer,
                             .state = taken ? OrderState::kSold : OrderState::kHeld,
                             .expires_at = record.expires_at,
                             .ttl = record.ttl,
                             .ended_at = taken ? at : absl::InfiniteFuture()};
    Expect(orders_.emplace(record.order_id, std::move(order)).second);
  }

  void Settle(uint64_t order_id, OrderState state, absl::Time at) {
    LedgerState::Order& order = orders_.at(order_id);
    Expect(order.state == OrderState::kHeld);
    order.state = state;
    order.ended_at = at;
    if (state == OrderState::kSold) return;
    for (const OrderLine& line : order.lines) GiveBack(line);
  }

  void TakeBack(const LedgerRecord& record, absl::Time at) {
    const bool is_known = orders_.contains(record.order_id);
    Expect(is_known && std::ranges::count(changes_, record.request_id, &LedgerState::Change::request_id) == 0);
    if (!is_known) return;
    const LedgerState::Order& order = orders_.at(record.order_id);
    Expect(order.state == OrderState::kSold && record.change_id != 0 && !orders_.contains(record.change_id));
    LedgerState::Change change{.change_id = record.change_id,
                               .kind = record.kind,
                               .order_id = record.order_id,
                               .request_id = record.request_id,
                               .of_all = record.of_all,
                               .at = at};
    for (const OrderLine& line : record.lines) {
      const auto sold = std::ranges::find(order.lines, line.sku, &OrderLine::sku);
      int64_t& returned = returned_[{record.order_id, line.sku}];
      returned += line.quantity;
      Expect(line.quantity > 0 && sold != order.lines.end() && returned <= sold->quantity);
      const bool to_stock = record.kind == LedgerRecord::Kind::kReturn && !skus_.at(line.sku).removed;
      change.lines.push_back({.sku = line.sku, .quantity = line.quantity, .to_stock = to_stock});
      if (to_stock) {
        available_[line.sku] += line.quantity;
      } else {
        skus_.at(line.sku).granted -= line.quantity;
      }
    }
    changes_.push_back(std::move(change));
  }

  void GiveBack(const OrderLine& line) {
    LedgerState::Sku& sku = skus_.at(line.sku);
    if (sku.removed) {
      sku.granted -= line.quantity;
    } else {
      available_[line.sku] += line.quantity;
    }
  }

  std::map<std::string, LedgerState::Sku> skus_;
  std::map<std::string, int64_t> available_;
  std::map<uint64_t, LedgerState::Order> orders_;
  std::vector<LedgerState::Restock> restocks_;
  std::vector<LedgerState::Change> changes_;
  std::map<std::pair<uint64_t, std::string>, int64_t> returned_;
  bool right_ = true;
};

// `written_at`: of each record; those that it lacks count as written now.
inline Replayed Replay(const std::vector<LedgerRecord>& journal, std::vector<absl::Time> written_at = {}) {
  written_at.resize(journal.size(), absl::Now());
  Replayer replayer;
  for (size_t i = 0; i < journal.size(); ++i) replayer.Apply(journal[i], written_at[i]);
  return replayer.Result();
}

class RecordingLedger final : public Ledger {
 public:
  explicit RecordingLedger(std::shared_ptr<RecordingDisk> disk) : disk_(std::move(disk)) {}

  // Nothing becomes durable by it: who waits on a disk that is held up gets Unavailable.
  ~RecordingLedger() override {
    std::unique_lock lock(disk_->mutex);
    disk_->Tell(lock, [](uint64_t) { return true; });
  }

  LedgerState TakeRecovered() override {
    std::lock_guard lock(disk_->mutex);
    disk_->written_at.resize(disk_->journal.size(), disk_->clock->WallNow());
    return Replay(disk_->journal, disk_->written_at).state;
  }

  uint64_t Append(LedgerRecord record) override {
    std::unique_lock lock(disk_->mutex);
    disk_->journal.push_back(std::move(record));
    disk_->written_at.resize(disk_->journal.size(), disk_->clock->WallNow());
    const uint64_t position = disk_->journal.size();
    disk_->Settle(lock);
    return position;
  }

  absl::Status AwaitDurable(uint64_t position) override {
    std::unique_lock lock(disk_->mutex);
    ++disk_->waiting;
    disk_->changed.notify_all();
    disk_->changed.wait(lock, [&] { return disk_->Known(position); });
    --disk_->waiting;
    return disk_->durable >= position ? absl::OkStatus() : RecordingDisk::Broken();
  }

  // HoldUp() reports the outcomes that are not known yet, on its thread.
  void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) override {
    std::unique_lock lock(disk_->mutex);
    if (!disk_->Known(position)) {
      disk_->to_be_told.emplace(position, std::move(done));
      return;
    }
    const absl::Status outcome = position <= disk_->durable ? absl::OkStatus() : RecordingDisk::Broken();
    lock.unlock();
    done(outcome);
  }

  absl::Status Health() const override {
    std::lock_guard lock(disk_->mutex);
    return disk_->journal.size() >= disk_->fail_at ? RecordingDisk::Broken() : absl::OkStatus();
  }

 private:
  const std::shared_ptr<RecordingDisk> disk_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_RECORDING_LEDGER_H_
