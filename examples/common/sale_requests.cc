#include "common/sale_requests.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace examples {

SaleRequests::SaleRequests() : fd_(eventfd(0, EFD_CLOEXEC)) {}

SaleRequests::~SaleRequests() {
  if (fd_ >= 0) close(fd_);
}

void SaleRequests::Open() {
  const std::lock_guard lock(mutex_);
  open_ = fd_ >= 0;  // Without one nothing would see a start.
}

bool SaleRequests::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

std::optional<int64_t> SaleRequests::Start(absl::Duration arrival) {
  const std::lock_guard lock(mutex_);
  if (!open_) return std::nullopt;
  open_ = false;
  request_ = {.number = request_.number + 1, .arrival = arrival};
  eventfd_write(fd_, 1);
  return request_.number;
}

SaleRequest SaleRequests::Take() {
  eventfd_t starts = 0;
  eventfd_read(fd_, &starts);
  const std::lock_guard lock(mutex_);
  return request_;
}

}  // namespace examples
