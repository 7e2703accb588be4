#include "seller.h"

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "seller_lock.h"
#include "stockade/redis/redis_client.h"
#include "ticket_store.h"

namespace ticket_office {
namespace {

constexpr std::string_view kRole = "seller";
constexpr int kArgs = 7;  // The program, kRole, the scenario, the fate, both URLs, the place.

constexpr absl::Duration kThinks = absl::Milliseconds(1);
constexpr absl::Duration kExpiry = absl::Milliseconds(300);  // In (c).
// In (d) one is paused past it, and another is not to be while the first deletes its lock.
constexpr absl::Duration kLongerExpiry = absl::Seconds(2);
constexpr absl::Duration kShortPatience = absl::Milliseconds(500);  // In (b), where patience does not help.

absl::StatusOr<std::unique_ptr<SellerLock>> MakeLock(const SellerPlan& plan, stockade::RedisClient* redis,
                                                     TicketStore* store) {
  switch (plan.scenario) {
    case 'a': return NewNoLock();
    case 'b': return NewSetNxLock(redis, store, {.patience = kShortPatience});
    case 'c': return NewSetNxLock(redis, store, {.expiry = kExpiry});
    case 'd': return NewSetNxLock(redis, store, {.expiry = kLongerExpiry, .looks_whose_it_is = false});
    default: break;
  }
  absl::StatusOr<std::unique_ptr<stockade::LockService>> locks = ConnectLocks(plan.locks);
  if (!locks.ok()) return locks.status();
  return NewStockadeLock(*std::move(locks), store);
}

void MeetFateAtRead(Fate fate, bool first) {
  if (fate == Fate::kPausedAtEachRead || (first && fate == Fate::kPausedAtFirstRead)) raise(SIGSTOP);
  if (first && fate == Fate::kCrashesAtFirstRead) raise(SIGKILL);
}

// One ticket. False: there is none, or the store has refused this seller.
absl::StatusOr<bool> SellOne(SellerLock& lock, TicketStore& store, Fate fate, bool first) {
  absl::StatusOr<int64_t> left = store.Left(lock.fencing_token());
  if (!left.ok()) return left.status();
  MeetFateAtRead(fate, first);
  if (*left == 0) return false;
  absl::SleepFor(kThinks);
  // Whether the lock is still held is not asked for: a pause may come right after any question.
  absl::Status sold = store.Sell(*left, lock.fencing_token());
  if (!sold.ok()) return sold;
  return true;
}

absl::Status SellAll(SellerLock& lock, TicketStore& store, Fate fate) {
  for (bool first = true;; first = false) {
    absl::StatusOr<bool> entered = lock.Enter();
    if (!entered.ok()) return entered.status();
    if (!*entered) return store.Add(Note::kLockedOut);

    absl::StatusOr<bool> sold = SellOne(lock, store, fate, first);
    if (absl::IsAborted(sold.status())) {
      if (absl::Status noted = store.Add(Note::kWriteRefused); !noted.ok()) return noted;
    } else if (!sold.ok()) {
      return sold.status();
    }
    if (first && fate == Fate::kPausedBeforeLeaving) raise(SIGSTOP);
    if (absl::Status left = lock.Leave(); !left.ok()) return left;
    if (sold.ok() && !*sold) return absl::OkStatus();
    if (!first && fate == Fate::kPausedBeforeLeaving) return absl::OkStatus();
  }
}

absl::Status Sell(const SellerPlan& plan) {
  absl::StatusOr<std::unique_ptr<stockade::RedisClient>> redis =
      stockade::RedisClient::Connect(plan.redis, {.metrics = nullptr});
  if (!redis.ok()) return redis.status();
  TicketStore store(redis->get(), plan.place);
  absl::StatusOr<std::unique_ptr<SellerLock>> lock = MakeLock(plan, redis->get(), &store);
  if (!lock.ok()) return lock.status();
  return SellAll(**lock, store, plan.fate);
}

}  // namespace

std::vector<std::string> SellerArgs(const std::string& program, const SellerPlan& plan) {
  return {program,
          std::string(kRole),
          std::string(1, plan.scenario),
          std::to_string(static_cast<int>(plan.fate)),
          plan.redis,
          plan.locks,
          plan.place};
}

bool IsSeller(int argc, char** argv) { return argc == kArgs && argv[1] == kRole; }

int SellerMain(char** argv) {
  const absl::Status done = Sell({.scenario = argv[2][0],
                                  .fate = static_cast<Fate>(std::atoi(argv[3])),
                                  .redis = argv[4],
                                  .locks = argv[5],
                                  .place = argv[6]});
  if (done.ok()) return 0;
  std::fprintf(stderr, "ticket_office: a seller: %s\n", std::string(done.message()).c_str());
  return 2;
}

}  // namespace ticket_office
