#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_POOL_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_POOL_H_

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/mysql/internal/mysql_connection.h"

namespace stockade::mysql_internal {

// Lends a few connections to one server. If a caller has to wait for one, the pool's thread opens connections one after
// another, with a back-off after failures. So a single thread contacts a server that is down, and callers wait until
// their own deadlines at most. Thread-safe; must outlive the connections that it lends.
//
// Invariant: idle_.size() + lent_ <= most_, and one of most_ is never lent for steps.
class STOCKADE_EXPORT MySqlPool {
 public:
  enum class Use {
    kStep,    // Statements that may wait for row locks.
    kUpkeep,  // Other statements, for which one connection is reserved.
  };

  class Lent {
   public:
    Lent(MySqlPool* pool, Use use, std::unique_ptr<MySqlConnection> connection)
        : pool_(pool), use_(use), connection_(std::move(connection)) {}
    ~Lent() {
      if (connection_ != nullptr) pool_->Return(std::move(connection_), use_);
    }
    Lent(Lent&&) = default;
    Lent& operator=(Lent&&) = delete;
    MySqlConnection* operator->() const { return connection_.get(); }
    MySqlConnection& operator*() const { return *connection_; }

   private:
    MySqlPool* const pool_;
    const Use use_;
    std::unique_ptr<MySqlConnection> connection_;
  };

  // `first` is the first connection.
  MySqlPool(MySqlTarget target, int most, std::unique_ptr<MySqlConnection> first, EventFd stop);
  ~MySqlPool();

  // Blocks until there is a connection or until `deadline`; then Unavailable, with the error of the last attempt to
  // connect. After `deadline` no connection is lent, because the server would run the statements while nobody waits for
  // their result. A permanent error (such as a wrong password) is returned at once. ResourceExhausted: the thread that
  // connects cannot be started.
  absl::StatusOr<Lent> Borrow(Use use, Instant deadline);

  // Readable after Stop(): users of connections lent for kUpkeep should then stop waiting.
  int stop_fd() const { return stop_.get(); }
  // Sets stop_fd(). From then on no connection is lent.
  void Stop();

 private:
  bool MayLend(Use use) const STOCKADE_REQUIRES(mutex_) { return use == Use::kUpkeep || lent_for_steps_ + 1 < most_; }
  void Return(std::unique_ptr<MySqlConnection> connection, Use use);
  void Open();

  const MySqlTarget target_;
  const int most_;
  const EventFd stop_;

  Mutex mutex_;
  CondVar changed_;  // For callers that wait for a connection.
  CondVar wanted_;   // For the thread that opens connections.
  std::vector<std::unique_ptr<MySqlConnection>> idle_ STOCKADE_GUARDED_BY(mutex_);
  int lent_ STOCKADE_GUARDED_BY(mutex_) = 0;
  int lent_for_steps_ STOCKADE_GUARDED_BY(mutex_) = 0;
  int missing_ STOCKADE_GUARDED_BY(mutex_) = 0;  // Callers that wait and may be lent a connection once there is one.
  uint64_t failures_ STOCKADE_GUARDED_BY(mutex_) = 0;
  absl::Status last_failure_ STOCKADE_GUARDED_BY(mutex_) = absl::OkStatus();
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread opener_ STOCKADE_GUARDED_BY(mutex_);
};

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_POOL_H_
