#ifndef STOCKADE_REDIS_ASKING_ORDER_H_
#define STOCKADE_REDIS_ASKING_ORDER_H_

#include <cstddef>
#include <span>
#include <vector>

#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/redis/redis_endpoint.h"

namespace stockade::redis_internal {

// Servers each of which can answer the same question, in the order in which they are asked: who answered last comes
// first, who failed last comes last, so that neither one dead server nor many cost every question their time-outs.
//
// Invariants: order_ holds each endpoint once, among them all of given_, and at most kMaxLearnt others, which the
// server that answered last has named: what nobody names any more is forgotten.
//
// Thread-safe. Each call is O(servers squared), and they are few.
class AskingOrder {
 public:
  static constexpr size_t kMaxLearnt = 64;

  explicit AskingOrder(std::vector<RedisEndpoint> given);

  std::vector<RedisEndpoint> Get() const;
  // `server` answered, and named `others`.
  void Answered(const RedisEndpoint& server, std::span<const RedisEndpoint> others);
  void Failed(const RedisEndpoint& server);
  // `server` knows something new, so it is to be asked first.
  void Prefer(const RedisEndpoint& server);

 private:
  const std::vector<RedisEndpoint> given_;

  mutable Mutex mutex_;
  std::vector<RedisEndpoint> order_ STOCKADE_GUARDED_BY(mutex_);
};

// When to give up on one of `left` servers, the next ones included, that are asked in turn until `deadline`: none may
// take all the time, and some is left for what follows the answer.
Instant EndOfTurn(Instant now, Instant deadline, size_t left);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_ASKING_ORDER_H_
