#include "zookeeper_connection.h"

#include <algorithm>
#include <random>
#include <utility>

#include "stockade/base/event_fd.h"
#include "stockade/base/log.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

constexpr absl::Duration kShortestPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
// A session that has not been opened by then is given up for a new attempt, because its time counts from the start of
// the attempt.
constexpr absl::Duration kLongestOpening = absl::Seconds(5);
// A proof lags behind by the one before it, so at any time two thirds of a time-out are left.
constexpr int kProofsInTimeout = 6;
// While a session opens: between probes for a file descriptor.
constexpr absl::Duration kProbePause = absl::Milliseconds(100);

absl::Status NoDescriptor() {
  return absl::ResourceExhaustedError("ZooKeeper: no file descriptor is left for a connection");
}

}  // namespace

ZooKeeperConnection::ZooKeeperConnection(ZooKeeperSessionOptions options, Listener listener)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      why_(absl::UnavailableError(Concat("no server of ", options_.servers, " has answered"))),
      pause_(kShortestPause, kLongestPause, std::random_device{}()) {}

ZooKeeperConnection::~ZooKeeperConnection() { Stop(); }

absl::Status ZooKeeperConnection::Connect(absl::Duration timeout) {
  if (absl::Status started = StartThread(thread_, [this] { Run(); }); !started.ok()) return started;
  const Instant until = options_.clock->Now() + timeout;
  const MutexLock lock(mutex_);
  while (session_ == nullptr && absl::IsUnavailable(why_)) {
    if (!changed_.WaitUntil(*options_.clock, mutex_, until)) break;
  }
  if (session_ != nullptr) return absl::OkStatus();
  if (!absl::IsUnavailable(why_)) return why_;
  return absl::UnavailableError(
      Concat("ZooKeeper: cannot connect within ", absl::FormatDuration(timeout), ": ", why_.message()));
}

void ZooKeeperConnection::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<ZooKeeperSession> ZooKeeperConnection::Await(Instant until, absl::Status& why) {
  const MutexLock lock(mutex_);
  while (session_ == nullptr && !stopping_ && !absl::IsResourceExhausted(why_)) {
    if (!changed_.WaitUntil(*options_.clock, mutex_, until)) break;
  }
  if (session_ == nullptr) why = why_;
  return session_;
}

void ZooKeeperConnection::Run() {
  std::shared_ptr<ZooKeeperSession> last;
  {
    const MutexLock lock(mutex_);
    while (!stopping_) {
      if (session_ == nullptr) {
        OpenSession();
        continue;
      }
      const Instant now = options_.clock->Now();
      const Instant ends = session_->lease()->ValidUntil();
      if (over_ || now >= ends) {
        EndSession();
      } else if (!asking_ && now >= ask_at_) {
        AskForProof();
      } else if (asking_ && now >= nudge_at_) {
        Nudge();
      } else {
        changed_.WaitUntil(*options_.clock, mutex_, std::min(ends, asking_ ? nudge_at_ : ask_at_));
      }
    }
    last = std::exchange(session_, nullptr);
  }
  if (last == nullptr) return;
  last->Close();
  listener_.over(last);
}

void ZooKeeperConnection::OpenSession() {
  const uint64_t number = ++opened_;
  connected_ = over_ = asking_ = false;
  if (absl::IsResourceExhausted(why_)) why_ = absl::UnavailableError(why_.message());  // It may be over by now.
  const Instant now = options_.clock->Now();
  auto session = std::make_shared<ZooKeeperSession>(
      options_, [this, number](ZooKeeperSession::Event event) { OnEvent(number, event); });
  absl::Status opened;
  {
    const MutexUnlock unlocked(mutex_);
    opened = session->Open();
  }
  const Instant until = now + std::min(options_.timeout / 3, kLongestOpening);
  while (opened.ok() && !connected_ && !over_ && !stopping_) {
    const Instant looks_at = std::min(until, options_.clock->Now() + kProbePause);
    if (changed_.WaitUntil(*options_.clock, mutex_, looks_at)) continue;
    // The client does not say so, and tries again for ever.
    if (!session->HasSocket() && OutOfDescriptors()) opened = NoDescriptor();
    if (options_.clock->Now() >= until) break;
  }
  if (opened.ok() && (!connected_ || over_)) {
    opened = absl::UnavailableError(Concat("no server of ", options_.servers, " has answered"));
  }
  if (opened.ok() && session->timeout() <= 3 * options_.tick) {
    opened = absl::FailedPreconditionError(
        Concat("the servers at ", options_.servers, " keep a session for ", absl::FormatDuration(session->timeout()),
               ", which is not more than 3 of their ticks of ", absl::FormatDuration(options_.tick)));
  }
  if (opened.ok()) {
    session_ = std::move(session);
    ask_at_ = Instant::InfinitePast();
    pause_.Reset();
    changed_.NotifyAll();
    const MutexUnlock unlocked(mutex_);
    listener_.heard();
    return;
  }
  if (absl::IsUnavailable(opened) && OutOfDescriptors()) opened = NoDescriptor();
  why_ = std::move(opened);
  changed_.NotifyAll();
  {
    const MutexUnlock unlocked(mutex_);
    session->Close();
  }
  const Instant again = options_.clock->Now() + pause_.Next();
  while (!stopping_ && changed_.WaitUntil(*options_.clock, mutex_, again)) {
  }
}

void ZooKeeperConnection::EndSession() {
  const std::shared_ptr<ZooKeeperSession> ended = std::exchange(session_, nullptr);
  why_ =
      absl::UnavailableError(Concat("the session at ", options_.servers, over_ ? " has expired" : " may have expired"));
  Log(LogSeverity::kWarning, Concat("ZooKeeper: ", why_.message(), ": all its holds are lost"));
  const MutexUnlock unlocked(mutex_);
  // Close it at the servers first: an owner that is notified of the end tries again, and must not queue behind its own
  // old node.
  ended->Close();
  listener_.over(ended);
}

void ZooKeeperConnection::AskForProof() {
  asking_ = true;
  nudge_at_ = options_.clock->Now() + kPatienceWithServer;
  const std::shared_ptr<ZooKeeperSession> session = session_;
  const uint64_t number = opened_;
  // From one answer to the next request: a tick at least, or the next one would prove nothing.
  const absl::Duration pause = std::max(session->timeout() / kProofsInTimeout, options_.tick);
  const MutexUnlock unlocked(mutex_);
  session->Barrier([this, number, pause](const ZooKeeperAnswer& answer) {
    {
      const MutexLock guard(mutex_);
      if (number != opened_) return;
      asking_ = false;
      ask_at_ = options_.clock->Now() + (answer.code == ZOK ? pause : kShortestPause);
    }
    changed_.NotifyAll();
    if (answer.code == ZOK) listener_.kept();
  });
}

void ZooKeeperConnection::Nudge() {
  const std::shared_ptr<ZooKeeperSession> session = session_;
  nudge_at_ = options_.clock->Now() + kPatienceWithServer;
  const MutexUnlock unlocked(mutex_);
  session->Nudge();
}

void ZooKeeperConnection::OnEvent(uint64_t session, ZooKeeperSession::Event event) {
  bool again = false;
  {
    const MutexLock lock(mutex_);
    if (session != opened_) return;
    again = event == ZooKeeperSession::Event::kConnected && std::exchange(connected_, true);
    if (event == ZooKeeperSession::Event::kOver) over_ = true;
  }
  changed_.NotifyAll();
  if (again) listener_.heard();
}

}  // namespace stockade::locks_internal
