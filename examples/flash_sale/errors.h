#ifndef STOCKADE_EXAMPLES_FLASH_SALE_ERRORS_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_ERRORS_H_

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"

namespace flash_sale {

// Errors that no buyer or viewer should see: how many there were, and the first one. Thread-safe.
class Errors {
 public:
  void Add(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (count_++ == 0) first_ = status;
  }
  int64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  absl::Status first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  int64_t count_ = 0;
  absl::Status first_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_ERRORS_H_
