#ifndef STOCKADE_TESTS_INVENTORY_FENCED_LEDGER_H_
#define STOCKADE_TESTS_INVENTORY_FENCED_LEDGER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "inventory/fenced_store.h"
#include "stockade/inventory/ledger.h"

namespace stockade::testing {

// A ledger in a FencedStore, as one in a database server would be: one thread sends what is queued in transactions,
// each with the owner's token. The first that does not succeed fails the ledger for good. Thread-safe.
//
// Positions: 1 ... durable_ ... sent_ ... appended_, the last ones in queue_; in a failed ledger durable_ stands still.
class FencedLedger final : public Ledger {
 public:
  // FailedPrecondition: there is a newer owner. `store` must outlive the ledger.
  static absl::StatusOr<std::unique_ptr<FencedLedger>> Open(FencedStore& store, uint64_t token) {
    absl::StatusOr<FencedStore::TakenOver> taken = store.TakeOver(token);
    if (!taken.ok()) return taken.status();
    return std::unique_ptr<FencedLedger>(new FencedLedger(store, token, *std::move(taken)));
  }

  ~FencedLedger() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    writer_.join();
  }

  LedgerState TakeRecovered() override { return std::move(recovered_); }

  uint64_t Append(LedgerRecord record) override {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) queue_.push_back(std::move(record));
    changed_.notify_all();
    return ++appended_;
  }

  absl::Status AwaitDurable(uint64_t position) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return Known(position); });
    return OutcomeOf(position);
  }

  void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) override {
    std::unique_lock lock(mutex_);
    if (!Known(position)) {
      to_be_told_.emplace(position, std::move(done));
      return;
    }
    const absl::Status outcome = OutcomeOf(position);
    lock.unlock();
    done(outcome);
  }

  absl::Status Health() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  FencedLedger(FencedStore& store, uint64_t token, FencedStore::TakenOver taken)
      : store_(store),
        token_(token),
        recovered_(std::move(taken.state)),
        durable_(taken.last_position),
        sent_(taken.last_position),
        appended_(taken.last_position),
        writer_([this] { Run(); }) {}

  // With mutex_ held, as the next.
  bool Known(uint64_t position) const { return position <= durable_ || !failure_.ok(); }
  absl::Status OutcomeOf(uint64_t position) const { return position <= durable_ ? absl::OkStatus() : failure_; }

  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !queue_.empty() || closing_; });
      if (queue_.empty()) return;
      const std::vector<LedgerRecord> batch = std::exchange(queue_, {});
      sent_ += batch.size();
      lock.unlock();
      const absl::Status status = store_.Commit(token_, batch, absl::Now());
      lock.lock();
      if (status.ok()) {
        durable_ = sent_;
      } else {
        failure_ = absl::UnavailableError("the ledger has failed: " + std::string(status.message()));
        queue_.clear();
      }
      changed_.notify_all();
      Tell(lock);
    }
  }

  // Invokes the callbacks whose outcome is known.
  void Tell(std::unique_lock<std::mutex>& lock) {
    while (!to_be_told_.empty() && Known(to_be_told_.begin()->first)) {
      auto first = to_be_told_.extract(to_be_told_.begin());
      const absl::Status outcome = OutcomeOf(first.key());
      lock.unlock();
      first.mapped()(outcome);
      lock.lock();
    }
  }

  FencedStore& store_;
  const uint64_t token_;
  LedgerState recovered_;  // Until taken.

  mutable std::mutex mutex_;  // Guards what follows. Not held while anything is called back.
  std::condition_variable changed_;
  std::vector<LedgerRecord> queue_;
  std::multimap<uint64_t, absl::AnyInvocable<void(absl::Status)>> to_be_told_;  // By position.
  uint64_t durable_;
  uint64_t sent_;
  uint64_t appended_;
  absl::Status failure_;  // Once not OK it stays.
  bool closing_ = false;

  std::thread writer_;  // Last: it uses the rest.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FENCED_LEDGER_H_
