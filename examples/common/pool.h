#ifndef STOCKADE_EXAMPLES_COMMON_POOL_H_
#define STOCKADE_EXAMPLES_COMMON_POOL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace examples {

// Connections that threads borrow, opened as they are needed: as many as threads that use one at a time. Thread-safe.
template <typename Connection>
class Pool {
 public:
  using Opener = std::function<absl::StatusOr<std::unique_ptr<Connection>>()>;
  explicit Pool(Opener opener) : opener_(std::move(opener)) {}

  class Lease {
   public:
    Lease(Pool* pool, std::unique_ptr<Connection> connection) : pool_(pool), connection_(std::move(connection)) {}
    Lease(Lease&&) noexcept = default;
    ~Lease() {
      if (connection_ != nullptr) pool_->Return(std::move(connection_));
    }
    Connection* operator->() const { return connection_.get(); }

   private:
    Pool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  absl::StatusOr<Lease> Borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Connection> connection = std::move(idle_.back());
        idle_.pop_back();
        return Lease(this, std::move(connection));
      }
    }
    absl::StatusOr<std::unique_ptr<Connection>> opened = opener_();
    if (!opened.ok()) return opened.status();
    return Lease(this, *std::move(opened));
  }

 private:
  void Return(std::unique_ptr<Connection> connection) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
  }

  const Opener opener_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;  // Guarded by mutex_.
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_POOL_H_
