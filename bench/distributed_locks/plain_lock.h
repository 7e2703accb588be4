#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_LOCK_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_LOCK_H_

#include <hiredis.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distributed_locks/lock_words.h"

namespace stockade::bench {

// One connection of hiredis that sends a lock's scripts and sees that they were done. What fails aborts.
class PlainLock {
 public:
  // The server then knows the scripts.
  PlainLock(uint16_t port, const std::string& name);

  void Acquire() { Call(words_.acquire); }
  void Release() { Call(words_.release); }

  // Any commands, all sent before the first answer is read.
  void CallAll(std::span<const std::vector<std::string>> commands);

 private:
  using Reply = std::unique_ptr<redisReply, void (*)(redisReply*)>;

  void Call(StepWords& step);
  static Reply Checked(void* reply);

  const std::unique_ptr<redisContext, void (*)(redisContext*)> connection_;
  LockWords words_;
  uint64_t sequence_ = 0;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_LOCK_H_
