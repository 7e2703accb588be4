#include "fleet/crowd.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "redis_tier_record.h"
#include "redis_tier_scripts.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr absl::Duration kHeartbeat = absl::Milliseconds(250);
constexpr absl::Duration kCrowdPause = absl::Milliseconds(1);

struct FreeReply {
  void operator()(void* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

[[noreturn]] void Fail(std::string_view what, std::string_view why) {
  base_internal::Fatal(base_internal::Concat("bench: a process of the crowd: ", what, ": ", why));
}

void Append(redisContext& context, const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  redisAppendCommandArgv(&context, static_cast<int>(words.size()), texts.data(), sizes.data());
}

}  // namespace

Crowd::Crowd(size_t processes, uint16_t port, const std::string& prefix, bool messages)
    : state_(cache_internal::TierKeys(prefix).state),
      journal_(cache_internal::TierKeys(prefix).journal),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      processes_(processes) {
  const cache_internal::TierKeys keys(prefix);
  const Context first = Connect(port);
  const Reply incarnation(static_cast<redisReply*>(redisCommand(first.get(), "HGET %s i", state_.c_str())));
  if (incarnation == nullptr || incarnation->type != REDIS_REPLY_STRING) Fail("HGET", "there is no tier");
  incarnation_.assign(incarnation->str, incarnation->len);
  for (size_t i = 0; i < processes; ++i) {
    Process& process = processes_[i];
    process.calls = Connect(port);
    process.service = Connect(port);
    Watch(*process.service, i, true);
    process.beat_at = absl::Now() + kHeartbeat * std::uniform_real_distribution<double>(0, 1)(random_);
    if (!messages) continue;
    process.subscriptions = Connect(port);
    Append(*process.subscriptions, {"SUBSCRIBE", keys.channel, base_internal::Concat(keys.inboxes, "crowd", i)});
    Watch(*process.subscriptions, i, false);
    Send(*process.subscriptions);
  }
}

Crowd::~Crowd() { close(epoll_); }

Crowd::Context Crowd::Connect(uint16_t port) const {
  Context context(redisConnect("127.0.0.1", port));
  if (context == nullptr || context->err != 0) Fail("connect", context == nullptr ? "no memory" : context->errstr);
  return context;
}

void Crowd::Watch(redisContext& context, size_t process, bool is_service) const {
  fcntl(context.fd, F_SETFL, fcntl(context.fd, F_GETFL) | O_NONBLOCK);
  context.flags &= ~REDIS_BLOCK;
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = process * 2 + (is_service ? 1 : 0)}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, context.fd, &event) != 0) Fail("epoll", std::strerror(errno));
}

// Commands are short, and each waits for its reply: the socket has room.
void Crowd::Send(redisContext& context) {
  int done = 0;
  if (redisBufferWrite(&context, &done) != REDIS_OK || done == 0) Fail("send", context.errstr);
}

// As RedisTier::Run() jitters it.
absl::Duration Crowd::Interval() { return kHeartbeat * std::uniform_real_distribution<double>(0.9, 1.1)(random_); }

void Crowd::Beat(Process& process) {
  Append(*process.service,
         {"EVALSHA", std::string(cache_internal::TierSyncScript().sha1()), "2", state_, journal_, incarnation_,
          std::to_string(process.applied), "1000", std::to_string(process.heard), process.sum});
  Send(*process.service);
  process.is_waiting = true;
}

void Crowd::Hear(Process& process, std::string_view message) {
  messages_.fetch_add(1, std::memory_order_relaxed);
  const auto entry = cache_internal::ReadTierMessage(message, incarnation_);
  if (!entry || static_cast<int64_t>(entry->position) != process.heard + 1) return;
  ++process.heard;
  process.sum = cache_internal::TierSum(process.sum, message);
}

void Crowd::Receive(Process& process, bool is_service) {
  redisContext& context = is_service ? *process.service : *process.subscriptions;
  if (redisBufferRead(&context) != REDIS_OK) Fail("read", context.errstr);
  for (;;) {
    void* next = nullptr;
    if (redisGetReplyFromReader(&context, &next) != REDIS_OK) Fail("reply", context.errstr);
    if (next == nullptr) return;
    const Reply reply(static_cast<redisReply*>(next));
    if (!is_service) {
      if (reply->elements == 3 && std::string_view(reply->element[0]->str) == "message") {
        Hear(process, {reply->element[2]->str, reply->element[2]->len});
      }
      continue;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4) {
      Fail("heartbeat", reply->type == REDIS_REPLY_ERROR ? reply->str : "refused");
    }
    process.applied = reply->element[1]->integer;
    if (process.heard <= process.applied) {
      process.heard = process.applied;
      process.sum.assign(reply->element[3]->str, reply->element[3]->len);
    }
    process.is_waiting = false;
  }
}

void Crowd::Run(const std::stop_token& stop) {
  std::array<epoll_event, 256> events = {};
  absl::Time look_at = absl::Now();
  while (!stop.stop_requested()) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(absl::ToInt64Milliseconds(kCrowdPause)));
    for (int i = 0; i < count; ++i) {
      const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
      Receive(processes_[tag / 2], tag % 2 == 1);
    }
    const absl::Time now = absl::Now();
    if (now < look_at) continue;
    look_at = now + kCrowdPause;
    for (Process& process : processes_) {
      if (process.is_waiting || now < process.beat_at) continue;
      Beat(process);
      process.beat_at = now + Interval();
    }
  }
}

}  // namespace stockade::bench
