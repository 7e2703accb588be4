#include "pipeline.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "now.h"
#include "redis_metrics.h"
#include "status.h"
#include "stockade/base/clock.h"
#include "stockade/base/futex.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

// What has been sent and got no reply is unknown, whatever the reason.
absl::Status Lost(const absl::Status& why) {
  const absl::StatusCode code =
      why.code() == absl::StatusCode::kCancelled ? why.code() : absl::StatusCode::kUnavailable;
  return WithUnknownOutcome(absl::Status(code, why.message()));
}

absl::Status CannotStart(const PipelineOptions& options, const absl::Status& why) {
  return absl::Status(why.code(), Concat(options.name, ": ", std::string(why.message())));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Pipeline>> Pipeline::Start(LinkMaker make_link, const PipelineOptions& options,
                                                          TimerQueue* timers, ComponentMetrics* metrics) {
  absl::StatusOr<EventFd> wake = EventFd::Create();
  if (!wake.ok()) {
    return NoDescriptorError(Concat(options.name, ": ", std::string(wake.status().message())));
  }
  std::shared_ptr<Pipeline> pipeline(new Pipeline(std::move(make_link), options, timers, metrics, *std::move(wake)));
  const absl::Status started = StartThread(pipeline->thread_, [raw = pipeline.get()] { raw->Background(); });
  if (!started.ok()) return CannotStart(options, started);
  return pipeline;
}

Pipeline::Pipeline(LinkMaker make_link, const PipelineOptions& options, TimerQueue* timers, ComponentMetrics* metrics,
                   EventFd wake_background)
    : make_link_(std::move(make_link)),
      options_(options),
      timers_(timers),
      metrics_(metrics),
      wake_background_(std::move(wake_background)),
      backoff_(options.min_backoff, options.max_backoff, std::random_device{}()) {}

Pipeline::~Pipeline() { Stop(); }

void Pipeline::Run(std::span<Request> requests, Instant deadline) {
  Waiter waiter;
  std::shared_ptr<Session> send_on;
  AfterUnlock after_unlock;
  size_t bytes = 0;
  for (const Request& request : requests) bytes += request.wire.size();
  const Instant now = Now();
  {
    const MutexLock lock(mutex_);
    const absl::Status admitted = Admit(requests.size(), bytes);
    if (!admitted.ok()) {
      for (Request& request : requests) request.result = admitted;
      return;
    }
    for (Request& request : requests) {
      const absl::Status may_be_sent = CheckSession(request);
      if (may_be_sent.ok()) {
        Append(request, &waiter, now);
      } else {
        request.result = may_be_sent;
      }
    }
    if (waiter.left == 0) return;
    waiter.in_crowd = InCrowd();
    if (session_ != nullptr && session_->driver == nullptr) {
      session_->driver = &waiter;
      waiter.word.store(Waiter::kDrives, std::memory_order_relaxed);
    }
    if (GatherIfMaySend(after_unlock)) send_on = session_;
  }
  RunAfterUnlock(after_unlock);
  if (send_on != nullptr) Send(send_on);
  if (!Wait(waiter, deadline) || waiter.may_drive) AbandonRequests(waiter, requests);
}

void Pipeline::RunAsync(std::unique_ptr<AsyncRequest> request) {
  std::shared_ptr<Session> send_on;
  AfterUnlock after_unlock;
  const Instant now = Now();
  {
    const MutexLock lock(mutex_);
    absl::Status admitted = Admit(1, request->wire.size());
    if (admitted.ok()) admitted = CheckSession(*request);
    if (!admitted.ok()) {
      request->result = admitted;
      after_unlock.done.push_back(std::move(request));
    } else {
      ArmTimer(request->deadline);
      Append(*request.release(), nullptr, now);
      if (session_ != nullptr && session_->driver == nullptr) AppointDriver(after_unlock);
      if (GatherIfMaySend(after_unlock)) send_on = session_;
    }
  }
  if (send_on != nullptr) Send(send_on);
  RunAfterUnlock(after_unlock);
}

bool Pipeline::Wait(Waiter& waiter, Instant deadline) {
  int yields = waiter.in_crowd ? kYieldsInCrowd : 0;
  for (;;) {
    uint32_t word = waiter.word.load(std::memory_order_acquire);
    if (word == Waiter::kDone) return true;
    if (word == Waiter::kDrives) {
      Drive(waiter, deadline);
      if (waiter.word.load(std::memory_order_acquire) == Waiter::kDone) return true;
    } else if (word == Waiter::kAwake && yields-- > 0) {
      std::this_thread::yield();
      continue;
    } else {
      // The count is read before the word is checked. A thread that changes the word later changes the count after
      // that, so it ends the sleep or prevents it. If the exchange fails, the word has changed. The word may still be
      // kAsleep after a spurious wake-up.
      std::atomic<uint32_t>& futex = waiter.wake.group->wakes;
      const uint32_t wakes = futex.load(std::memory_order_acquire);
      if (!waiter.word.compare_exchange_strong(word, Waiter::kAsleep)) continue;
      FutexWait(futex, wakes, SteadyAt(deadline, Now()), waiter.wake.bits);
      if (waiter.word.load(std::memory_order_acquire) != Waiter::kAsleep) continue;
    }
    if (Now() >= deadline) return false;
  }
}

void Pipeline::AbandonRequests(Waiter& waiter, std::span<Request> requests) {
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    for (Request& request : requests) {
      const uint64_t at = request.place - first_place_;  // Wraps where it has been answered.
      if (at >= pending_.size() || pending_[at].request != &request) continue;
      request.result = NotInTime(request.place);
      Abandon(request.place);
    }
    if (std::exchange(waiter.left, 0) > 0) --callers_;
    DropGivenUp();
    WatchSilence();
    if (session_ != nullptr && session_->driver == &waiter) {
      session_->driver = nullptr;
      AppointDriver(after_unlock);
    }
  }
  RunAfterUnlock(after_unlock);
}

void Pipeline::ExpireAsync() {
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    const Instant now = Now();
    Instant next = Instant::InfiniteFuture();
    timer_at_ = next;
    for (size_t i = 0; i < pending_.size() && live_async_ > 0; ++i) {
      if (pending_[i].request == nullptr || pending_[i].waiter != nullptr) continue;
      auto* request = static_cast<AsyncRequest*>(pending_[i].request);
      if (request->deadline > now) {
        next = std::min(next, request->deadline);
        continue;
      }
      request->result = NotInTime(request->place);
      Abandon(request->place);
      after_unlock.done.emplace_back(request);
    }
    DropGivenUp();
    WatchSilence();
    ArmTimer(next);
  }
  RunAfterUnlock(after_unlock);
}

absl::Status Pipeline::AwaitFirstAttempt() {
  const MutexLock lock(mutex_);
  while (!attempted_once_) attempted_.Wait(mutex_);
  return session_ != nullptr ? absl::OkStatus() : last_error_;
}

absl::StatusOr<RedisServerIdentity> Pipeline::AwaitServer(Instant deadline) {
  const MutexLock lock(mutex_);
  while (end_.ok() && (session_ == nullptr || session_->hung_up) &&
         attempted_.WaitUntil(*Clock::System(), mutex_, deadline)) {
  }
  if (!end_.ok()) return end_;
  if (session_ != nullptr && !session_->hung_up) return session_->link->server();
  const absl::Status why =
      session_ == nullptr ? last_error_ : absl::UnavailableError("the server has closed the connection");
  const bool refused = absl::IsUnauthenticated(why) || absl::IsPermissionDenied(why) || absl::IsInvalidArgument(why);
  return absl::Status(refused ? why.code() : absl::StatusCode::kUnavailable,
                      Concat(options_.name, ": not connected: ", std::string(why.message())));
}

void Pipeline::Drop(const absl::Status& why, const RedisEndpoint* unless_to) {
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    if (session_ == nullptr || (unless_to != nullptr && session_->link->endpoint() == *unless_to)) return;
    LoseLocked(why, after_unlock);
  }
  RunAfterUnlock(after_unlock);
}

void Pipeline::ConnectNow() {
  {
    const MutexLock lock(mutex_);
    if (session_ != nullptr) return;
    connect_now_ = true;
  }
  wake_background_.Set();
}

void Pipeline::Retire(const absl::Status& why) {
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    if (!end_.ok()) return;
    end_ = why;
    attempted_.NotifyAll();
    EndUnsent(end_, after_unlock);
    // Without one that was sent nobody needs the connection; and where it has a driver, that one's own command is gone.
    if (live_ == 0 && session_ != nullptr) LoseLocked(why, after_unlock);
    after_unlock.wake_background = true;
  }
  RunAfterUnlock(after_unlock);
}

void Pipeline::Stop() {
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    if (end_.ok()) end_ = absl::CancelledError(Concat(options_.name, ": the client was destroyed"));
    attempted_.NotifyAll();
    if (session_ != nullptr) LoseLocked(end_, after_unlock);
    EndUnsent(end_, after_unlock);
    after_unlock.wake_background = true;
  }
  RunAfterUnlock(after_unlock);
  if (thread_.joinable()) thread_.join();  // Not if Start() could not start it.
}

size_t Pipeline::pending() const {
  const MutexLock lock(mutex_);
  return live_;
}

bool Pipeline::connected() const {
  const MutexLock lock(mutex_);
  return end_.ok() && session_ != nullptr && !session_->hung_up;
}

absl::Status Pipeline::Admit(size_t commands, size_t bytes) const {
  if (!end_.ok()) return end_;
  if (commands > options_.max_pending_commands - std::min(pending_.size(), options_.max_pending_commands)) {
    return absl::ResourceExhaustedError(Concat(options_.name, ": ", pending_.size(), " commands are pending; ",
                                               commands, " more would exceed max_pending_commands (",
                                               options_.max_pending_commands, "); not sent"));
  }
  // One that is larger than the bound goes when nothing else waits.
  if (unsent_bytes_ > 0 && bytes > options_.max_unsent_bytes - std::min(unsent_bytes_, options_.max_unsent_bytes)) {
    return absl::ResourceExhaustedError(Concat(options_.name, ": ", unsent_bytes_, " bytes wait to be sent; ", bytes,
                                               " more would exceed max_unsent_bytes (", options_.max_unsent_bytes,
                                               "); not sent"));
  }
  return absl::OkStatus();
}

absl::Status Pipeline::CheckServer(const Request& request, const Link& link) const {
  if (!request.on_server) return absl::OkStatus();
  const absl::StatusOr<std::string>& run_id = link.server().run_id;
  if (run_id.ok() && *run_id == *request.on_server) return absl::OkStatus();
  return absl::AbortedError(Concat(options_.name, ": the command is bound to the server with run id '",
                                   absl::CHexEscape(*request.on_server), "', but ",
                                   run_id.ok()
                                       ? Concat(link.endpoint().ToString(), " has run id '", *run_id, "'")
                                       : Concat("the run id is unknown: ", std::string(run_id.status().message())),
                                   "; not sent"));
}

absl::Status Pipeline::CheckSession(const Request& request) const {
  // If the server has hung up, the request waits for the next connection.
  if (session_ == nullptr || session_->hung_up) return absl::OkStatus();
  if (request.kind == Request::Kind::kTransaction && !session_->runs_transactions) return UnprovenError();
  return CheckServer(request, *session_->link);
}

void Pipeline::RefuseWhatMustNotBeSent(const Link& link, AfterUnlock& after_unlock) {
  for (Entry& entry : pending_) {
    if (entry.request == nullptr) continue;
    const absl::Status refused =
        entry.request->kind == Request::Kind::kTransaction ? UnprovenError() : CheckServer(*entry.request, link);
    if (refused.ok()) continue;
    unsent_bytes_ -= entry.request->wire.size();
    entry.replies = 0;
    Deliver(entry, refused, after_unlock);
  }
  DropGivenUp();
}

void Pipeline::EndUnsent(const absl::Status& why, AfterUnlock& after_unlock) {
  for (uint64_t place = first_place_; place < first_place_ + pending_.size(); ++place) {
    Entry& entry = pending_[place - first_place_];
    if (Sent(place) || entry.request == nullptr) continue;
    unsent_bytes_ -= entry.request->wire.size();
    entry.replies = 0;
    if (entry.waiter != nullptr && session_ != nullptr && session_->driver == entry.waiter) {
      entry.waiter->may_drive = true;
    }
    Deliver(entry, why, after_unlock);
  }
  DropGivenUp();
}

void Pipeline::Append(Request& request, Waiter* waiter, Instant now) {
  request.place = first_place_ + pending_.size();
  pending_.push_back({.request = &request,
                      .waiter = waiter,
                      .replies = request.replies,
                      .since = now,
                      .transaction = request.kind != Request::Kind::kCommand});
  unsent_bytes_ += request.wire.size();
  ++live_;
  if (waiter != nullptr) {
    if (waiter->left++ == 0) ++callers_;
    waiter->wake = {.group = &wake_groups_[request.place / WakeGroup::kSize % wake_groups_.size()],
                    .bits = uint32_t{1} << request.place % WakeGroup::kSize};
  } else {
    ++live_async_;
  }
}

void Pipeline::Deliver(Entry& entry, absl::StatusOr<RedisReply> result, AfterUnlock& after_unlock) {
  --live_;
  Request* request = std::exchange(entry.request, nullptr);
  request->result = std::move(result);
  if (entry.waiter == nullptr) {
    --live_async_;
    after_unlock.done.emplace_back(static_cast<AsyncRequest*>(request));
  } else if (--entry.waiter->left == 0) {
    --callers_;
    SetWord(*entry.waiter, Waiter::kDone, after_unlock);
  }
}

void Pipeline::SetWord(Waiter& waiter, Waiter::Word word, AfterUnlock& after_unlock) {
  // Acquired by the waiter with the word: once that is kDone, it may return, and its request go, before it is woken.
  const Wake wake = waiter.wake;
  if (waiter.word.exchange(word, std::memory_order_acq_rel) != Waiter::kAsleep) return;
  if (after_unlock.wakes.empty() || after_unlock.wakes.back().group != wake.group) {
    after_unlock.wakes.push_back(wake);
  } else {
    after_unlock.wakes.back().bits |= wake.bits;
  }
}

void Pipeline::Abandon(uint64_t place) {
  Entry& entry = pending_[place - first_place_];
  if (!Sent(place)) {
    unsent_bytes_ -= entry.request->wire.size();
    entry.replies = 0;
  }
  --live_;
  if (entry.waiter == nullptr) --live_async_;
  entry.request = nullptr;
}

void Pipeline::DropGivenUp() {
  while (!pending_.empty() && pending_.front().replies == 0) {
    pending_.pop_front();
    ++first_place_;
  }
  // Not where the sender has passed it: its place must not be another's.
  while (!pending_.empty() && pending_.back().replies == 0 && !Sent(first_place_ + pending_.size() - 1)) {
    pending_.pop_back();
  }
}

absl::Status Pipeline::NotInTime(uint64_t place) const {
  if (session_ == nullptr) {
    return absl::UnavailableError(
        Concat(options_.name, ": not connected: ", std::string(last_error_.message()), "; not sent"));
  }
  if (!Sent(place)) return absl::DeadlineExceededError(Concat(options_.name, ": not sent in time"));
  return WithUnknownOutcome(absl::DeadlineExceededError(
      Concat(options_.name, ": no reply from ", session_->link->endpoint().ToString(), " in time")));
}

void Pipeline::LoseLocked(const absl::Status& why, AfterUnlock& after_unlock) {
  const std::shared_ptr<Session> session = std::exchange(session_, nullptr);
  session->link->ShutDown();
  if (session->driver != nullptr && session->driver != &background_ && session->driver->left > 0) {
    session->driver->word.store(Waiter::kAwake, std::memory_order_relaxed);
  }
  last_error_ = why;
  if (!stopping_) metrics_->Add(kRedisConnectionsLost);
  // The reply that could not be taken in is that of the first.
  bool first = true;
  for (; !pending_.empty() && first_place_ < session->sent; pending_.pop_front(), ++first_place_) {
    Entry& entry = pending_.front();
    const bool refused = first && why.code() == absl::StatusCode::kResourceExhausted;
    first = first && entry.replies == 0;
    if (entry.request != nullptr) Deliver(entry, refused ? why : Lost(why), after_unlock);
  }
  DropGivenUp();
  after_unlock.wake_background = true;
}

void Pipeline::AppointDriver(AfterUnlock& after_unlock) {
  if (live_async_ > 0 || (live_ == 0 && session_->hung_up)) {
    session_->driver = &background_;
    after_unlock.wake_background = true;
    return;
  }
  if (live_ == 0) return;
  auto at = pending_.rbegin();
  while (at->request == nullptr) ++at;
  session_->driver = at->waiter;
  SetWord(*at->waiter, Waiter::kDrives, after_unlock);
}

void Pipeline::ArmTimer(Instant deadline) {
  if (deadline >= timer_at_) return;
  timer_at_ = deadline;
  timers_->Schedule(deadline, [weak = weak_from_this()] {
    if (const std::shared_ptr<Pipeline> pipeline = weak.lock()) pipeline->ExpireAsync();
  });
}

Instant Pipeline::SilenceEnds() const {
  if (session_ == nullptr || !AwaitsReplies()) return Instant::InfiniteFuture();
  size_t next = 0;
  while (pending_[next].replies == 0) ++next;
  const Entry& due = pending_[next];
  // A caller that still waits has said how long it is ready to.
  if (due.request != nullptr) return Instant::InfiniteFuture();
  return std::max(session_->answered_at, due.since) + options_.max_silence;
}

void Pipeline::WatchSilence() {
  if (watches_silence_) return;
  const Instant ends = SilenceEnds();
  if (ends == Instant::InfiniteFuture()) return;
  if (!timers_->Start().ok()) return;  // No thread: the next call that gives up tries again.
  watches_silence_ = true;
  timers_->Schedule(ends, [weak = weak_from_this()] {
    if (const std::shared_ptr<Pipeline> pipeline = weak.lock()) pipeline->EndSilence();
  });
}

void Pipeline::EndSilence() {
  AfterUnlock after_unlock;
  {
    const MutexLock lock(mutex_);
    watches_silence_ = false;
    if (SilenceEnds() > Now()) {
      WatchSilence();
    } else if (session_->link->HasSome().value_or(false)) {
      // Replies have come, and no thread has received them because no caller waits for one.
      if (session_->driver == nullptr) {
        session_->driver = &background_;
        after_unlock.wake_background = true;
      }
    } else {
      LoseLocked(absl::UnavailableError(Concat(session_->link->endpoint().ToString(), ": no reply for ",
                                               absl::FormatDuration(options_.max_silence))),
                 after_unlock);
    }
  }
  RunAfterUnlock(after_unlock);
}

void Pipeline::RunAfterUnlock(AfterUnlock& after_unlock) {
  for (const Wake& wake : after_unlock.wakes) {
    wake.group->wakes.fetch_add(1, std::memory_order_release);
    FutexWake(wake.group->wakes, std::numeric_limits<int>::max(), wake.bits);
  }
  if (after_unlock.wake_background) wake_background_.Set();
  for (std::unique_ptr<AsyncRequest>& request : after_unlock.done) request->done(std::move(request->result));
}

}  // namespace stockade::redis_internal
