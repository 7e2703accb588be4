// The two roles of a pipeline, and the thread that makes its connections.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "now.h"
#include "pipeline.h"
#include "redis_metrics.h"
#include "status.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {

bool Pipeline::AwaitsReplies() const {
  for (uint64_t place = first_place_; place < session_->sent && place - first_place_ < pending_.size(); ++place) {
    if (pending_[place - first_place_].replies > 0) return true;
  }
  return false;
}

bool Pipeline::GatherIfMaySend(AfterUnlock& after_unlock) {
  if (session_ == nullptr || session_->sending || session_->hung_up || unsent_bytes_ == 0) return false;
  if (session_->flushes.size() >= (live_ < kCrowd ? kMaxFlushes : kMaxFlushesInCrowd)) return false;
  session_->sending = true;
  session_->out.clear();
  session_->out_begin = 0;
  return InCrowd() || Gather(after_unlock);
}

bool Pipeline::Gather(AfterUnlock& after_unlock) {
  Session& session = *session_;
  if (session.hung_up || unsent_bytes_ == 0) {
    session.sending = false;
    return false;
  }
  if (!AwaitsReplies()) {
    const absl::Status quiet = session.link->CheckNothingCame();
    if (!quiet.ok()) {
      LoseLocked(quiet, after_unlock);
      return false;
    }
  }
  int64_t commands = 0;
  uint64_t place = std::max(session.sent, first_place_);
  const uint64_t end = first_place_ + pending_.size();
  for (; place < end && session.out.size() < kMaxFlushBytes; ++place) {
    const Entry& entry = pending_[place - first_place_];
    if (entry.request == nullptr) continue;
    session.out += entry.request->wire;
    unsent_bytes_ -= entry.request->wire.size();
    ++commands;
  }
  session.sent = place;
  session.flushes.push_back(place);
  session.flushed_callers = callers_;
  metrics_->ObserveCount(kRedisPipelineCommands, commands);
  return true;
}

bool Pipeline::GatherFromCrowd(const std::shared_ptr<Session>& session) {
  // Callers that are ready to run add their commands now, and this flush takes them along.
  std::this_thread::yield();
  AfterUnlock after_unlock;
  bool gathered = false;
  {
    const MutexLock lock(mutex_);
    gathered = session_ == session && Gather(after_unlock);
  }
  RunAfterUnlock(after_unlock);
  return gathered;
}

void Pipeline::Send(const std::shared_ptr<Session>& session) {
  for (int flushes = 1;; ++flushes) {
    if (session->out.empty() && !GatherFromCrowd(session)) return;
    while (session->out_begin < session->out.size()) {
      const absl::StatusOr<size_t> sent =
          session->link->Send(std::string_view(session->out).substr(session->out_begin));
      if (!sent.ok()) return Lose(session, sent.status());
      session->out_begin += *sent;
      if (*sent > 0) continue;
      {
        const MutexLock lock(mutex_);
        session->blocked = true;
      }
      return wake_background_.Set();
    }
    AfterUnlock after_unlock;
    bool sends = false;
    {
      const MutexLock lock(mutex_);
      session->sending = false;
      if (session->out.capacity() > 4 * kMaxFlushBytes) session->out = {};
      // After some rounds for others it is their turn, or the driver's, who is there for the next reply.
      if (flushes >= kMaxFlushesInARow && session->driver != nullptr && !session->flushes.empty()) return;
      sends = session_ == session && GatherIfMaySend(after_unlock);
    }
    RunAfterUnlock(after_unlock);
    if (!sends) return;
  }
}

void Pipeline::Drive(Waiter& self, Instant deadline) {
  std::shared_ptr<Session> session;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (session == nullptr) session = session_;
      if (session == nullptr || session != session_ || session->driver != &self) return;
    }
    pollfd ready{.fd = session->link->fd(), .events = POLLIN, .revents = 0};
    Poll({&ready, 1}, deadline);
    if (ready.revents != 0 && !ReceiveReplies(session, self)) return;
    if (Now() >= deadline) return;
  }
}

void Pipeline::Unblock(const std::shared_ptr<Session>& session) {
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(session->blocked, false)) return;
  }
  Send(session);
}

bool Pipeline::ReceiveReplies(const std::shared_ptr<Session>& session, Waiter& self) {
  absl::StatusOr<bool> more = session->link->Receive();
  RedisReply reply;
  while (more.ok() && *more) {
    more = session->link->Next(reply);
    if (more.ok() && *more) session->replies.push_back(std::move(reply));
  }
  AfterUnlock after_unlock;
  bool stays = false;
  bool sends = false;
  {
    const MutexLock lock(mutex_);
    if (session_ != session) return false;
    absl::Status broken = DeliverReplies(*session, after_unlock);
    if (broken.ok()) broken = more.status();
    if (broken.ok() && session->link->HasUnread() && !AwaitsReplies()) {
      broken = absl::DataLossError(
          Concat(session->link->endpoint().ToString(), ": the beginning of a reply that no command waits for"));
    }
    if (!broken.ok()) {
      LoseLocked(broken, after_unlock);
    } else {
      stays = &self == &background_ ? live_async_ > 0 || session->hung_up
                                    : self.word.load(std::memory_order_relaxed) != Waiter::kDone;
      if (!stays) {
        session->driver = nullptr;
        AppointDriver(after_unlock);
      }
      sends = GatherIfMaySend(after_unlock);
    }
  }
  RunAfterUnlock(after_unlock);
  if (sends) Send(session);
  return stays;
}

absl::Status Pipeline::DeliverReplies(Session& session, AfterUnlock& after_unlock) {
  const Instant now = Now();
  for (RedisReply& reply : session.replies) {
    while (!pending_.empty() && pending_.front().replies == 0) {
      pending_.pop_front();
      ++first_place_;
    }
    if (pending_.empty() || first_place_ >= session.sent) {
      return absl::DataLossError(Concat(session.link->endpoint().ToString(),
                                        ": a reply that no command waits for: ", RedisReplyKindName(reply.kind())));
    }
    Entry& entry = pending_.front();
    if (--entry.replies > 0) {
      if (!reply.is_error() && reply.kind() != RedisReply::Kind::kStatus) {
        return absl::DataLossError(Concat(session.link->endpoint().ToString(), ": a reply to ",
                                          entry.transaction ? "a part of a transaction" : "ASKING",
                                          " that belongs to another command (", RedisReplyKindName(reply.kind()), ")"));
      }
      entry.in_multi = entry.in_multi || !reply.is_error();
      if (entry.transaction && entry.request != nullptr) entry.request->parts.push_back(std::move(reply));
      continue;
    }
    absl::Status ended = entry.transaction ? FinishTransaction(entry, reply, session) : absl::OkStatus();
    metrics_->Observe(kRedisRoundTripSeconds, now - entry.since);
    if (entry.request != nullptr) Deliver(entry, std::move(reply), after_unlock);
    pending_.pop_front();
    ++first_place_;
    if (!ended.ok()) return ended;
  }
  if (!session.replies.empty()) session.answered_at = now;
  session.replies.clear();
  WatchSilence();
  while (!session.flushes.empty() && session.flushes.front() <= first_place_) session.flushes.pop_front();
  return absl::OkStatus();
}

absl::Status Pipeline::FinishTransaction(Entry& entry, RedisReply& exec, Session& session) {
  absl::Status ended;
  if (exec.kind() == RedisReply::Kind::kArray) {
    session.runs_transactions = true;
  } else if (exec.is_error() && entry.in_multi) {
    // With these, the server has ended the transaction. If it has not, it would queue the commands of other callers.
    static constexpr std::string_view kEnded[] = {"EXECABORT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"};
    if (std::find(std::begin(kEnded), std::end(kEnded), ErrorCodeOf(exec.text())) == std::end(kEnded)) {
      ended = absl::UnavailableError(
          Concat(session.link->endpoint().ToString(), ": EXEC was refused, and the transaction may not have ended"));
    }
  }
  if (entry.request != nullptr) {
    entry.request->parts.push_back(std::move(exec));
    exec = RedisReply::Array(std::move(entry.request->parts));
  }
  return ended;
}

void Pipeline::Lose(const std::shared_ptr<Session>& session, const absl::Status& why) {
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    if (session_ != session) return;
    LoseLocked(why, after_unlock);
  }
  RunAfterUnlock(after_unlock);
}

void Pipeline::Background() {
  for (;;) {
    std::shared_ptr<Session> session;
    {
      const MutexLock lock(mutex_);
      if (stopping_ || (session_ == nullptr && !end_.ok())) return;
      session = session_;
    }
    if (session == nullptr) {
      Reconnect();
    } else {
      Attend(session);
    }
  }
}

void Pipeline::Reconnect() {
  // What was there for long may come back at once; what breaks as soon as it is there waits like what never came.
  if (Now() - tried_at_ >= options_.max_backoff) {
    backoff_.Reset();
  } else if (!Pause(Now() + backoff_.Next())) {
    return;
  }
  tried_at_ = Now();
  absl::StatusOr<std::unique_ptr<Link>> link = make_link_(tried_at_ + options_.connect_timeout);
  if (link.ok() && (*link)->HasUnread()) {
    link = absl::DataLossError(Concat((*link)->endpoint().ToString(), ": bytes that no command waits for"));
  }
  metrics_->Add(link.ok() ? kRedisConnectSuccesses : kRedisConnectErrors);
  std::shared_ptr<Session> send_on;
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    attempted_once_ = true;
    attempted_.NotifyAll();
    if (!end_.ok()) return;
    if (link.ok()) {
      RefuseWhatMustNotBeSent(**link, after_unlock);
      session_ = std::make_shared<Session>();
      session_->link = *std::move(link);
      session_->sent = first_place_;
      session_->answered_at = Now();
      connect_now_ = false;
      AppointDriver(after_unlock);
      if (GatherIfMaySend(after_unlock)) send_on = session_;
    } else if (OutOfDescriptors()) {
      last_error_ = NoDescriptorError(Concat("no file descriptor is left: ", std::string(link.status().message())));
      // At once: no server can end this, only the process itself.
      EndUnsent(NoDescriptorError(Concat(options_.name, ": not connected: ", last_error_.message(), "; not sent")),
                after_unlock);
    } else {
      last_error_ = link.status();
    }
  }
  RunAfterUnlock(after_unlock);
  if (send_on != nullptr) Send(send_on);
}

bool Pipeline::Pause(Instant until) {
  pollfd woken{.fd = wake_background_.get(), .events = POLLIN, .revents = 0};
  while (Now() < until) {
    {
      const MutexLock lock(mutex_);
      if (!end_.ok()) return false;
      if (std::exchange(connect_now_, false)) return true;
    }
    Poll({&woken, 1}, until);
    if (woken.revents != 0) wake_background_.Clear();
  }
  return true;
}

void Pipeline::Attend(const std::shared_ptr<Session>& session) {
  bool drives = false;
  short events = 0;
  {
    const MutexLock lock(mutex_);
    drives = session->driver == &background_;
    // If another thread drives, replies do not wake this one, only the end of the connection does. So an idle
    // connection is found closed before a command is lost on it.
    if (!session->hung_up) events = POLLRDHUP;
    if (drives) events = POLLIN;
    if (session->blocked) events |= POLLOUT;
  }
  pollfd ready[] = {{.fd = wake_background_.get(), .events = POLLIN, .revents = 0},
                    {.fd = session->link->fd(), .events = events, .revents = 0}};
  Poll(std::span(ready, events == 0 ? 1 : 2), Instant::InfiniteFuture());
  if (ready[0].revents != 0) wake_background_.Clear();
  if ((ready[1].revents & POLLOUT) != 0) Unblock(session);
  if ((ready[1].revents & ~POLLOUT) == 0) return;
  if (drives) {
    ReceiveReplies(session, background_);
    return;
  }
  // There may be replies before the end: the driver takes them.
  const MutexLock lock(mutex_);
  session->hung_up = true;
  if (session->driver == nullptr) session->driver = &background_;
}

}  // namespace stockade::redis_internal
