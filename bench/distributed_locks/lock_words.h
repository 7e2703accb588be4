#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_LOCK_WORDS_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_LOCK_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stockade::bench {

// A command in words, as hiredis and redis-benchmark take them. One of them is the step's number, which is to grow from
// command to command of a lock.
struct StepWords {
  std::vector<std::string> words = {};
  size_t sequence_at = 0;

  void SetSequence(uint64_t sequence) { words[sequence_at] = std::to_string(sequence); }
};

// What RedisLockService sends for a reentrant lock with the default options.
struct LockWords {
  StepWords acquire = {};
  StepWords release = {};

  explicit LockWords(const std::string& name);
};

// The scripts, which EVALSHA wants to be known.
std::vector<std::string> LockScriptSources();

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_LOCK_WORDS_H_
