#include "shared_sale.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace fleet_sale {
namespace {

absl::Status ErrorOf(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<SharedSale> SharedSale::Map(const std::string& path, int fd, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return ErrorOf(path, errno);
  return SharedSale(static_cast<Head*>(memory), reinterpret_cast<BuyerRow*>(static_cast<char*>(memory) + sizeof(Head)));
}

absl::StatusOr<SharedSale> SharedSale::Create(const std::string& path, int64_t buyers) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return ErrorOf(path, errno);
  // On a full disk, writing to memory without a block behind it would be SIGBUS.
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(Bytes(buyers)));
  absl::StatusOr<SharedSale> sale = error != 0 ? ErrorOf(path, error) : Map(path, fd, Bytes(buyers));
  close(fd);
  if (!sale.ok()) return sale;
  new (sale->head_) Head{.buyers = buyers};
  std::uninitialized_value_construct_n(sale->rows_, buyers);
  return sale;
}

absl::StatusOr<SharedSale> SharedSale::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return ErrorOf(path, errno);
  struct stat info = {};
  absl::StatusOr<SharedSale> sale =
      fstat(fd, &info) != 0 ? ErrorOf(path, errno) : Map(path, fd, static_cast<size_t>(info.st_size));
  close(fd);
  return sale;
}

}  // namespace fleet_sale
