#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_POLLER_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_POLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../hint_listener.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

// How a name is held at one moment, in the detail that waiters need.
struct NameState {
  bool held = false;     // Reentrant.
  bool read = false;     // By any owner.
  bool written = false;  // By any owner.
  uint64_t newest = 0;   // If it differs, the lock has changed hands; if not, it most likely has not.

  bool FreeFor(LockKind kind) const {
    if (kind == LockKind::kReentrant) return !held;
    return !written && (kind == LockKind::kRead || !read);
  }
  friend bool operator==(const NameState&, const NameState&) = default;
};

struct MySqlPollerOptions {
  absl::Duration interval_min = absl::Milliseconds(5);
  absl::Duration interval_max = absl::Milliseconds(100);
  absl::Duration purge_interval = absl::Minutes(5);
};

// Polls the database, because releases in other processes send no notification. One query covers all names that have
// waiters and are due, and is sent interval_min after the previous answer at the earliest. A name is due after
// interval_min at first; the interval doubles with each query that shows no change, up to interval_max. So while a lock
// changes hands quickly, a waiter waits at most interval_min and the duration of a query longer than necessary. The
// poller also purges.
//
// Releases in this process notify its waiters at once. But if its waiters have passed a lock to each other for
// kMostHanding, they have to poll once, as the waiters of other processes do. Otherwise those would never see it free.
//
// Thread-safe; one thread of its own, which Start() starts. O(names watched) each time.
class MySqlPoller {
 public:
  // The state of each name, in order; none: not known now. At most kMostNames at a time.
  using Ask = std::function<std::optional<std::vector<NameState>>(std::span<const std::string> names)>;
  static constexpr size_t kMostNames = 256;
  static constexpr absl::Duration kMostHanding = absl::Milliseconds(100);

  // `ask` and `purge` are called on its thread, until Stop() returns. Purge gives whether there is more to do.
  // `clock` must outlive it.
  MySqlPoller(const MySqlPollerOptions& options, Clock* clock, Ask ask, std::function<bool()> purge);
  ~MySqlPoller();

  // Once. ResourceExhausted: the system gives no thread.
  absl::Status Start();

  // Must not outlive the poller.
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint);
  // Somebody in this process has given a lock of this name back.
  void TellReleased(std::string_view name);

  // Waits for a call that runs; makes none from then on.
  void Stop();

  uint64_t questions() const;

 private:
  class Watching;
  using Listeners = std::vector<std::shared_ptr<HintListener>>;

  // Invariant: has listeners. While its query is in progress, `due` has only the requests made since then.
  struct Name {
    Listeners listeners = {};
    absl::Duration interval = {};
    Instant due = Instant::InfiniteFuture();
    Instant released_at = Instant::InfinitePast();  // In this process.
    Instant handing_since = {};                     // No pause of kMostHanding between releases since then.
    std::optional<NameState> seen = std::nullopt;
  };
  using Names = std::map<std::string, Name, std::less<>>;

  void Run();
  Instant NextLook() const STOCKADE_REQUIRES(mutex_);
  std::vector<std::string> TakeDue(Instant now) STOCKADE_REQUIRES(mutex_);
  void Note(const std::vector<std::string>& names, const std::optional<std::vector<NameState>>& states,
            Listeners& to_notify) STOCKADE_REQUIRES(mutex_);
  void AskSoon(Name& name) STOCKADE_REQUIRES(mutex_);
  void Forget(const std::shared_ptr<HintListener>& listener);
  Instant NextPurge(bool soon);

  const MySqlPollerOptions options_;
  Clock* const clock_;
  const Ask ask_;
  const std::function<bool()> purge_;

  mutable Mutex mutex_;
  CondVar changed_;
  Names names_ STOCKADE_GUARDED_BY(mutex_);
  Instant answered_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfinitePast();
  Instant purge_at_ STOCKADE_GUARDED_BY(mutex_);
  Instant sleeps_until_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfinitePast();
  uint64_t questions_ STOCKADE_GUARDED_BY(mutex_) = 0;
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_POLLER_H_
