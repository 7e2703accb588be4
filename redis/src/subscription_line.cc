#include "subscription_line.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_command.h"

namespace stockade::redis_internal {

// A connection in the making, on a thread of its own, since names, time-outs and Sentinels take time that messages of
// other connections do not have. If that thread cannot be started, the attempt has failed.
class ConnectAttempt {
 public:
  ConnectAttempt(SubscriptionLine::MakeLink make_link, Instant deadline, const EventFd* wake) {
    const absl::Status started = StartThread(
        thread_, [this, make_link = std::move(make_link), deadline, wake] { End(make_link(deadline), wake); });
    if (!started.ok()) End(started, wake);
  }
  ~ConnectAttempt() {
    if (thread_.joinable()) thread_.join();
  }

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Once it is done.
  absl::StatusOr<std::unique_ptr<Link>> Take() { return std::move(link_); }

 private:
  void End(absl::StatusOr<std::unique_ptr<Link>> link, const EventFd* wake) {
    link_ = std::move(link);
    done_.store(true, std::memory_order_release);
    wake->Set();
  }

  std::atomic<bool> done_ = false;
  absl::StatusOr<std::unique_ptr<Link>> link_ = absl::UnavailableError("not connected yet");
  std::thread thread_;  // Last: it uses the others.
};

SubscriptionLine::SubscriptionLine(const SubscriptionLineOptions& options, uint64_t seed)
    : options_(options), backoff_(options.min_backoff, options.max_backoff, seed) {}

SubscriptionLine::~SubscriptionLine() = default;

void SubscriptionLine::Connect(MakeLink make_link, Instant now, const EventFd* wake) {
  tried_at_ = now;
  attempt_ = std::make_unique<ConnectAttempt>(std::move(make_link), now + options_.connect_timeout, wake);
}

std::optional<absl::Status> SubscriptionLine::TakeAttempt(Instant now) {
  if (attempt_ == nullptr || !attempt_->done()) return std::nullopt;
  absl::StatusOr<std::unique_ptr<Link>> link = attempt_->Take();
  attempt_.reset();
  if (!link.ok()) {
    retry_at_ = now + backoff_.Next();
    return link.status();
  }
  link_ = *std::move(link);
  out_.clear();
  out_begin_ = 0;
  heard_at_ = now;
  pings_ = 0;
  return absl::OkStatus();
}

absl::Status SubscriptionLine::Flush() {
  while (out_begin_ < out_.size()) {
    const absl::StatusOr<size_t> sent = link_->Send(std::string_view(out_).substr(out_begin_));
    if (!sent.ok()) return sent.status();
    if (*sent == 0) break;
    out_begin_ += *sent;
  }
  out_.erase(0, std::exchange(out_begin_, 0));
  return absl::OkStatus();
}

absl::StatusOr<bool> SubscriptionLine::Receive(Instant now) {
  absl::StatusOr<bool> received = link_->Receive();
  if (received.ok() && *received) heard_at_ = now;
  return received;
}

absl::Status SubscriptionLine::TakePong() {
  if (pings_ == 0) return absl::DataLossError(Concat(endpoint().ToString(), ": a reply to a PING that was not sent"));
  --pings_;
  return absl::OkStatus();
}

absl::Status SubscriptionLine::JudgeSilence(Instant polled_at, Instant now) {
  if (polled_at < wakes_at()) return absl::OkStatus();
  if (pings_ == 0) {
    static const std::string& kPing = *new std::string(RedisCommand("PING").Wire());
    Write(kPing);
    ++pings_;
    pinged_at_ = now;
    return Flush();
  }
  return absl::UnavailableError(
      Concat(endpoint().ToString(), ": no answer to PING within ", absl::FormatDuration(options_.silence)));
}

void SubscriptionLine::Lose(Instant now) {
  link_.reset();
  if (now - tried_at_ >= options_.max_backoff) {
    backoff_.Reset();
    retry_at_ = now;
  } else {
    retry_at_ = now + backoff_.Next();
  }
}

Instant SubscriptionLine::wakes_at() const {
  if (up()) return (pings_ == 0 ? heard_at_ : std::max(heard_at_, pinged_at_)) + options_.silence;
  return connecting() ? Instant::InfiniteFuture() : retry_at_;
}

}  // namespace stockade::redis_internal
