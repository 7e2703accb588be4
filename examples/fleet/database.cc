#include "database.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace fleet {
namespace {

// All processes of a machine have this clock in common.
uint64_t NowMilliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(absl::DurationFromTimespec(now)));
}

}  // namespace

absl::StatusOr<Database> Database::Open(const std::string& path) {
  // Tables of zeros are empty tables, except for the price, which SetPrice() sets.
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* mapped = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(Tables)) == 0) {
    mapped = mmap(nullptr, sizeof(Tables), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  if (mapped == MAP_FAILED) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error)));
  return Database(static_cast<Tables*>(mapped));
}

int64_t Database::Query(const std::function<void()>& die) {
  ++tables_->total_queries;
  uint64_t expiry = tables_->expiry;
  while (expiry == 0 || (ClosesAt(expiry) != 0 && NowMilliseconds() >= ClosesAt(expiry))) {
    if (tables_->expiry.compare_exchange_strong(expiry, Pack(Number(expiry) + 1, 0))) break;
  }
  const int64_t number = this->expiry();
  if (number >= kMaxExpiries) std::abort();
  ++tables_->queries[number];
  if (Take(Order::kDieInAQuery)) die();
  const int64_t price = tables_->price;
  absl::SleepFor(kQueryTime);
  uint64_t open = Pack(number, 0);
  tables_->expiry.compare_exchange_strong(
      open, Pack(number, NowMilliseconds() + static_cast<uint64_t>(absl::ToInt64Milliseconds(kTtl - kRounding))));
  return price;
}

void Database::SetPrice(int64_t price) { tables_->price = price; }

void Database::EndExpiry() {
  uint64_t expiry = tables_->expiry;
  while (!tables_->expiry.compare_exchange_strong(expiry, Pack(Number(expiry), 1))) {
  }
}

bool Database::Take(Order order) { return tables_->order.compare_exchange_strong(order, Order::kNone); }

}  // namespace fleet
