#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_CONNECTION_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/backoff.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "zookeeper_session.h"

namespace stockade::locks_internal {

// Has a session, one after the other: a thread keeps it, and makes another one when it is over, by what the servers
// say or by our clock. Thread-safe.
class ZooKeeperConnection {
 public:
  // On any thread, without mutexes; must not block.
  struct Listener {
    // Its requests are answered again; or it is a new one.
    std::function<void()> heard = {};
    // What failed for a short while may be tried again.
    std::function<void()> kept = {};
    // Nothing that was made in it is there any more, or will not be soon.
    std::function<void(const std::shared_ptr<ZooKeeperSession>&)> over = {};
  };

  ZooKeeperConnection(ZooKeeperSessionOptions options, Listener listener);
  ~ZooKeeperConnection();
  ZooKeeperConnection(const ZooKeeperConnection&) = delete;
  ZooKeeperConnection& operator=(const ZooKeeperConnection&) = delete;

  // Begins. Blocks until there is a session, at most so long; then why not. ResourceExhausted: the system gives no
  // thread. Once.
  absl::Status Connect(absl::Duration timeout);
  // Closes the session, which ends all that was made in it. Blocks for some seconds at most.
  void Stop();

  // The session that there is, which may be out of touch; null, and why, where none came until then.
  std::shared_ptr<ZooKeeperSession> Await(Instant until, absl::Status& why);

 private:
  void Run();
  // These four release mutex_ while they call the session or the listener.
  void OpenSession() STOCKADE_REQUIRES(mutex_);
  void EndSession() STOCKADE_REQUIRES(mutex_);
  void AskForProof() STOCKADE_REQUIRES(mutex_);
  void Nudge() STOCKADE_REQUIRES(mutex_);
  void OnEvent(uint64_t session, ZooKeeperSession::Event event);

  const ZooKeeperSessionOptions options_;
  const Listener listener_;

  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<ZooKeeperSession> session_ STOCKADE_GUARDED_BY(mutex_);  // Null while there is none.
  uint64_t opened_ STOCKADE_GUARDED_BY(mutex_) = 0;     // How many: names the newest, whose events count.
  bool connected_ STOCKADE_GUARDED_BY(mutex_) = false;  // The newest one has been.
  bool over_ STOCKADE_GUARDED_BY(mutex_) = false;       // The servers say so of the newest one.
  bool asking_ STOCKADE_GUARDED_BY(mutex_) = false;     // The newest one for proof that it is kept.
  Instant ask_at_ STOCKADE_GUARDED_BY(mutex_);
  Instant nudge_at_ STOCKADE_GUARDED_BY(mutex_);  // While asking.
  absl::Status why_ STOCKADE_GUARDED_BY(mutex_);  // Why there is none.
  Backoff pause_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_CONNECTION_H_
