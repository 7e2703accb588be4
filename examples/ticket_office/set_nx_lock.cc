#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "seller_lock.h"

namespace ticket_office {
namespace {

using stockade::RedisCommand;
using stockade::RedisReply;
using stockade::RedisScript;

constexpr absl::Duration kBetweenTries = absl::Milliseconds(10);

const RedisScript& DeleteIfMine() {
  static const RedisScript& script = *new RedisScript(R"(
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('DEL', KEYS[1]))");
  return script;
}

class SetNxLock : public SellerLock {
 public:
  SetNxLock(stockade::RedisClient* redis, TicketStore* store, SetNxOptions options)
      : redis_(redis), store_(store), options_(options), me_(absl::StrCat("seller ", getpid())) {}

  absl::StatusOr<bool> Enter() override {
    RedisCommand set = RedisCommand("SET").Key(store_->lock_key()).Arg(me_).Arg("NX");
    if (options_.expiry < absl::InfiniteDuration()) set.Arg("PX").Arg(absl::ToInt64Milliseconds(options_.expiry));
    for (const absl::Time limit = absl::Now() + options_.patience; absl::Now() < limit;) {
      absl::StatusOr<RedisReply> reply = redis_->Run(set);
      if (!reply.ok()) return reply.status();
      if (!reply->is_nil()) return true;
      absl::SleepFor(kBetweenTries);
    }
    return false;
  }

  absl::Status Leave() override {
    if (options_.looks_whose_it_is) {
      return redis_->Run(RedisCommand(DeleteIfMine(), {store_->lock_key()}).Arg(me_)).status();
    }
    // A DEL that also returns the deleted value, for the report.
    absl::StatusOr<RedisReply> deleted = redis_->Run(RedisCommand("GETDEL").Key(store_->lock_key()));
    if (!deleted.ok()) return deleted.status();
    if (deleted->is_nil() || deleted->text() == me_) return absl::OkStatus();
    return store_->Add(Note::kDeletedAnothersLock);
  }

 private:
  stockade::RedisClient* const redis_;
  TicketStore* const store_;
  const SetNxOptions options_;
  const std::string me_;
};

}  // namespace

std::unique_ptr<SellerLock> NewSetNxLock(stockade::RedisClient* redis, TicketStore* store, SetNxOptions options) {
  return std::make_unique<SetNxLock>(redis, store, options);
}

}  // namespace ticket_office
