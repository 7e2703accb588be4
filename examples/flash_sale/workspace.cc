#include "workspace.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace flash_sale {
namespace {

absl::StatusOr<Workspace> MakeTemporary() {
  const char* const base = getenv("TMPDIR");
  std::string path = absl::StrCat(base != nullptr && *base != '\0' ? base : "/tmp", "/flash_sale-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  return Workspace(path);
}

absl::Status CheckWritable(const std::string& dir) {
  std::string probe = absl::StrCat(dir, "/.writable-XXXXXX");
  const int fd = mkstemp(probe.data());
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot write in ", dir, ": ", std::strerror(errno)));
  close(fd);
  unlink(probe.c_str());
  return absl::OkStatus();
}

}  // namespace

absl::Status Workspace::RemoveOrders() const {
  // The log of acknowledgements goes last: a ledger without it is never there. The ledger's lock file stores the last
  // acknowledged position, and a new ledger beside it would be refused.
  for (const std::string& file : {naive_orders, naive_orders + "-wal", naive_orders + "-shm", ledger, ledger + "-wal",
                                  ledger + "-shm", ledger + ".lock", ack_log}) {
    std::error_code error;
    std::filesystem::remove(file, error);  // No error if there is none.
    if (error) return absl::UnavailableError(absl::StrCat("cannot remove ", file, ": ", error.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Workspace> MakeWorkspace(const std::string& dir) {
  if (dir.empty()) return MakeTemporary();
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot create ", dir, ": ", error.message()));
  Workspace workspace(dir);
  for (const std::string& file : {workspace.ledger, workspace.ack_log, workspace.catalogue, workspace.naive_orders}) {
    if (std::filesystem::exists(std::filesystem::symlink_status(file, error))) {
      return absl::AlreadyExistsError(absl::StrCat(file, " exists already, from another run: choose another --dir"));
    }
  }
  if (absl::Status writable = CheckWritable(dir); !writable.ok()) return writable;
  return workspace;
}

}  // namespace flash_sale
