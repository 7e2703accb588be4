#include "distributed_locks/plain_lock.h"

#include <vector>

#include "stockade/base/log.h"

namespace stockade::bench {
namespace {

// As hiredis takes words.
struct Arguments {
  explicit Arguments(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      texts.push_back(word.data());
      sizes.push_back(word.size());
    }
  }
  int count() const { return static_cast<int>(texts.size()); }

  std::vector<const char*> texts;
  std::vector<size_t> sizes;
};

}  // namespace

PlainLock::PlainLock(uint16_t port, const std::string& name)
    : connection_(redisConnect("127.0.0.1", port), [](redisContext* context) { redisFree(context); }), words_(name) {
  std::vector<std::vector<std::string>> loads;
  for (std::string& source : LockScriptSources()) loads.push_back({"SCRIPT", "LOAD", std::move(source)});
  CallAll(loads);
}

void PlainLock::Call(StepWords& step) {
  step.SetSequence(++sequence_);
  Arguments arguments(step.words);
  const Reply reply =
      Checked(redisCommandArgv(connection_.get(), arguments.count(), arguments.texts.data(), arguments.sizes.data()));
  // What has been done: an acquire's answer begins with it.
  const redisReply* code = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : reply.get();
  if (code->integer != 1) base_internal::Fatal("bench: a plain lock was not acquired, or not released");
}

void PlainLock::CallAll(std::span<const std::vector<std::string>> commands) {
  for (const std::vector<std::string>& words : commands) {
    Arguments arguments(words);
    redisAppendCommandArgv(connection_.get(), arguments.count(), arguments.texts.data(), arguments.sizes.data());
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    void* reply = nullptr;
    redisGetReply(connection_.get(), &reply);
    Checked(reply);
  }
}

PlainLock::Reply PlainLock::Checked(void* reply) {
  Reply read(static_cast<redisReply*>(reply), [](redisReply* old) { freeReplyObject(old); });
  if (read == nullptr || read->type == REDIS_REPLY_ERROR) base_internal::Fatal("bench: hiredis got no reply");
  return read;
}

}  // namespace stockade::bench
