#include "file_claim.h"

#include <set>

#include "absl/status/status.h"
#include "stockade/base/mutex.h"

namespace stockade::inventory_internal {
namespace {

struct Claims {
  Mutex mutex;
  std::set<std::pair<dev_t, ino_t>> files STOCKADE_GUARDED_BY(mutex);
};

Claims& AllClaims() {
  static auto* const claims = new Claims();  // Ledgers may outlive main().
  return *claims;
}

}  // namespace

absl::StatusOr<FileClaim> FileClaim::Of(const struct stat& file) {
  const Id id(file.st_dev, file.st_ino);
  const MutexLock lock(AllClaims().mutex);
  if (AllClaims().files.insert(id).second) return FileClaim(id);
  return absl::FailedPreconditionError("in use: this process has the file open under another name");
}

FileClaim::~FileClaim() {
  if (!file_.has_value()) return;
  [this] {
    const MutexLock lock(AllClaims().mutex);
    AllClaims().files.erase(*file_);
  }();
}

}  // namespace stockade::inventory_internal
