#include "distributed_locks/lock_words.h"

#include <hiredis.h>

#include <functional>
#include <memory>

#include "redis_lock_commands.h"
#include "redis_lock_keys.h"
#include "redis_lock_scripts.h"
#include "stockade/base/log.h"
#include "stockade/locks/lock_service_options.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade::bench {
namespace {

// A command's bytes are an array of strings, as a reply's can be.
std::vector<std::string> Words(const RedisCommand& command) {
  const std::string wire = command.Wire();
  const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreate(), &redisReaderFree);
  redisReaderFeed(reader.get(), wire.data(), wire.size());
  void* read = nullptr;
  if (redisReaderGetReply(reader.get(), &read) != REDIS_OK || read == nullptr)
    base_internal::Fatal("bench: no command");
  const std::unique_ptr<redisReply, decltype(&freeReplyObject)> array(static_cast<redisReply*>(read), &freeReplyObject);
  std::vector<std::string> words;
  for (size_t i = 0; i < array->elements; ++i) words.emplace_back(array->element[i]->str, array->element[i]->len);
  return words;
}

// `make` of a number; where two differ is the number.
StepWords Step(const std::function<RedisCommand(uint64_t)>& make) {
  StepWords step = {.words = Words(make(1))};
  const std::vector<std::string> other = Words(make(2));
  while (step.words[step.sequence_at] == other[step.sequence_at]) ++step.sequence_at;
  return step;
}

}  // namespace

LockWords::LockWords(const std::string& name) {
  const RedisLockOptions options;
  const locks_internal::RedisLockCommands commands(
      {.client_id = locks_internal::NewRedisLockClientId(), .token_retention = options.token_retention});
  const HoldKey hold = {.name = name, .owner = NewOwnerId()};
  acquire = Step([&](uint64_t sequence) {
    return commands.Try({.hold = hold, .lease = options.service.watchdog_lease, .sequence = sequence});
  });
  release = Step([&](uint64_t sequence) { return commands.Release({.hold = hold, .sequence = sequence}); });
}

std::vector<std::string> LockScriptSources() {
  return {std::string(locks_internal::LockTryScript(LockKind::kReentrant).source()),
          std::string(locks_internal::LockReleaseScript(LockKind::kReentrant).source())};
}

}  // namespace stockade::bench
