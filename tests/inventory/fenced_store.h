#ifndef STOCKADE_TESTS_INVENTORY_FENCED_STORE_H_
#define STOCKADE_TESTS_INVENTORY_FENCED_STORE_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "inventory/recording_ledger.h"
#include "stockade/inventory/ledger.h"

namespace stockade::testing {

// A journal on a server, which its current owner writes to over a network. An owner has a fencing token, as lock
// services issue them: each new owner has a greater one. An owner whose lock has passed to another may not notice it.
// The store notices it from the new owner's first transaction on, because each transaction begins with a check of the
// token.
//
// Invariant: the tokens along the journal never decrease, and after a refused transaction of a token there is none of
// that token.
//
// Thread-safe. Calls block while their owner is held up.
class FencedStore {
 public:
  struct TakenOver {
    LedgerState state;
    uint64_t last_position = 0;
  };

  // Makes `token` the one to write with, and reads what is there: one transaction, so that nothing gets in between.
  // FailedPrecondition: there is a greater one.
  absl::StatusOr<TakenOver> TakeOver(uint64_t token) {
    const std::lock_guard lock(mutex_);
    if (token <= newest_) return Superseded();
    newest_ = token;
    return TakenOver{.state = Replay(journal_, written_at_).state, .last_position = journal_.size()};
  }

  // All of `records`, durable, or none.
  absl::Status Commit(uint64_t token, std::span<const LedgerRecord> records, absl::Time at) {
    std::unique_lock lock(mutex_);
    Pass(lock, held_requests_, token);
    if (token != newest_) return Superseded();
    journal_.insert(journal_.end(), records.begin(), records.end());
    written_at_.resize(journal_.size(), at);
    tokens_.resize(journal_.size(), token);
    Pass(lock, held_replies_, token);
    return absl::OkStatus();
  }

  // From now on what the owner sends does not arrive, or what it is answered.
  void HoldRequestsOf(uint64_t token) { Hold(held_requests_, token); }
  void HoldRepliesOf(uint64_t token) { Hold(held_replies_, token); }

  void LetGo() {
    const std::lock_guard lock(mutex_);
    held_requests_.clear();
    held_replies_.clear();
    changed_.notify_all();
  }

  // Blocks until a transaction is held up.
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

  std::vector<LedgerRecord> Journal() const {
    const std::lock_guard lock(mutex_);
    return journal_;
  }

  // Whose each record of the journal is.
  std::vector<uint64_t> Tokens() const {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

 private:
  static absl::Status Superseded() { return absl::FailedPreconditionError("superseded by a newer owner"); }

  void Hold(std::set<uint64_t>& held, uint64_t token) {
    const std::lock_guard lock(mutex_);
    held.insert(token);
  }

  void Pass(std::unique_lock<std::mutex>& lock, const std::set<uint64_t>& held, uint64_t token) {
    if (!held.contains(token)) return;
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held.contains(token); });
    --waiting_;
  }

  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  uint64_t newest_ = 0;
  std::vector<LedgerRecord> journal_;
  std::vector<absl::Time> written_at_;  // Of each record.
  std::vector<uint64_t> tokens_;        // Of each record.
  std::set<uint64_t> held_requests_;
  std::set<uint64_t> held_replies_;
  int waiting_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FENCED_STORE_H_
