#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LEASE_WITNESS_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LEASE_WITNESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "stockade/locks/lock_lease.h"

namespace stockade::testing {

// Sees every lease that is held, while the server may take locks away from their holders. An owner is of one service.
// Thread-safe.
class LeaseWitness {
 public:
  // What was so before an acquire was begun.
  struct Before {
    uint64_t epoch = 0;
    uint64_t acquired = 0;        // How many leases had been noted.
    int64_t token = 0;            // The newest that anybody has been given.
    int64_t exclusive_token = 0;  // And that was not for a read.
  };
  // Tokens are of places in a queue, and readers who hold together need not enter in the order of theirs.
  void LetReadersPassEachOther() { readers_pass_ = true; }
  // Leases have no tokens.
  void ExpectNoTokens() { tokens_ = false; }
  // Two owners at once are no failure then, but a store that takes the older one's token after the newer one's is one.
  void CountTwoOwners() { counts_two_owners_ = true; }
  int64_t two_owners() const { return two_owners_; }

  Before Look(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const Lock& seen = locks_[name];
    return {.epoch = epoch_,
            .acquired = seen.acquired,
            .token = seen.newest_token,
            .exclusive_token = seen.newest_exclusive_token};
  }

  // Runs what makes the server lose locks, one at a time. What is acquired meanwhile may be lost at once.
  template <typename Action>
  void ServerForgets(const Action& action) {
    ++epoch_;
    action();
    ++epoch_;
  }

  // Fails where its token is not larger than those before, or somebody else's lease excludes it, both are valid, and
  // the server has lost none since they were asked for. `lease` stays where it is until BeforeRelease().
  void Acquired(const LockLease& lease, const Before& before) {
    const absl::StatusOr<int64_t> token = lease.fencing_token();
    ASSERT_EQ(token.ok(), tokens_) << token.status();
    const bool read = lease.kind() == LockKind::kRead;
    if (tokens_) EXPECT_GT(*token, read && readers_pass_ ? before.exclusive_token : before.token) << lease.name();
    const std::lock_guard lock(mutex_);
    Lock& seen = locks_[std::string(lease.name())];
    seen.newest_token = std::max(seen.newest_token, TokenOf(lease));
    if (!read) seen.newest_exclusive_token = std::max(seen.newest_exclusive_token, TokenOf(lease));
    for (const Held& other : seen.held) {
      const bool shared = read && other.lease->kind() == LockKind::kRead;
      if (shared || other.lease->owner() == lease.owner()) continue;
      // Both at once: the other one is looked at first, and this one was acquired before.
      if (!other.lease->valid() || !lease.valid()) continue;
      if (counts_two_owners_) {
        FenceOlder(seen, lease, other, before);
        continue;
      }
      const uint64_t now = epoch_;
      if (now % 2 == 0 && other.epoch == now && before.epoch == now) ADD_FAILURE() << lease.name() << " is held twice";
    }
    seen.held.push_back({.lease = &lease, .epoch = before.epoch, .number = ++seen.acquired});
  }
  void BeforeRelease(const LockLease& lease) {
    const std::lock_guard lock(mutex_);
    std::erase_if(locks_[std::string(lease.name())].held, [&](const Held& held) { return held.lease == &lease; });
  }

  // Of a store that refuses tokens smaller than the largest that it has seen: whether it takes this one. Fails where
  // two leases come with one token.
  bool Write(const LockLease& lease) {
    const std::lock_guard lock(mutex_);
    return Store(locks_[std::string(lease.name())], lease);
  }

 private:
  struct Held {
    const LockLease* lease = nullptr;
    uint64_t epoch = 0;
    uint64_t number = 0;  // Of all that were noted, from 1.
  };
  struct Lock {
    uint64_t acquired = 0;
    int64_t newest_token = 0;
    int64_t newest_exclusive_token = 0;
    int64_t written_token = 0;
    const LockLease* writer = nullptr;
    std::vector<Held> held = {};
  };

  static int64_t TokenOf(const LockLease& lease) { return lease.fencing_token().value_or(0); }

  // The two below under mutex_.
  static bool Store(Lock& seen, const LockLease& lease) {
    const int64_t token = TokenOf(lease);
    if (token < seen.written_token) return false;
    EXPECT_TRUE(token > seen.written_token || seen.writer == &lease) << lease.name() << ": token " << token;
    seen.written_token = token;
    seen.writer = &lease;
    return true;
  }
  // The other one is the older if it was noted before this one was asked for.
  void FenceOlder(Lock& seen, const LockLease& lease, const Held& other, const Before& before) {
    ++two_owners_;
    const bool other_is_older = other.number <= before.acquired || TokenOf(*other.lease) < TokenOf(lease);
    (void)Store(seen, other_is_older ? lease : *other.lease);
    EXPECT_FALSE(Store(seen, other_is_older ? *other.lease : lease))
        << lease.name() << ": the store takes both owners' tokens";
  }

  bool readers_pass_ = false;
  bool tokens_ = true;
  bool counts_two_owners_ = false;
  std::atomic<int64_t> two_owners_{0};
  std::atomic<uint64_t> epoch_{0};  // Odd while the server is made to lose locks.
  std::mutex mutex_;
  std::map<std::string, Lock> locks_;  // Guarded by mutex_.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LEASE_WITNESS_H_
