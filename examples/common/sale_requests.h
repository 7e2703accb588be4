#ifndef STOCKADE_EXAMPLES_COMMON_SALE_REQUESTS_H_
#define STOCKADE_EXAMPLES_COMMON_SALE_REQUESTS_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "absl/time/time.h"

namespace examples {

// A sale to run: its number, from 1, and the time over which its first buyers arrive.
struct SaleRequest {
  int64_t number = 1;
  absl::Duration arrival = {};
};

// The way from the API to the thread that runs the sales. One sale runs at a time. Thread-safe.
class SaleRequests {
 public:
  SaleRequests();
  ~SaleRequests();
  SaleRequests(const SaleRequests&) = delete;
  SaleRequests& operator=(const SaleRequests&) = delete;

  // A sale is over, so that another one can be started.
  void Open();
  bool open() const;

  // The number of the sale that will run. None, and nothing happens, unless Open() was called since the last start.
  std::optional<int64_t> Start(absl::Duration arrival);

  // Can be read while Take() has something to return.
  int fd() const { return fd_; }
  // Returns each start once.
  SaleRequest Take();

 private:
  const int fd_;
  mutable std::mutex mutex_;
  bool open_ = false;    // Guarded by mutex_, like the next.
  SaleRequest request_;  // Of the sale that runs, or is about to.
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_SALE_REQUESTS_H_
