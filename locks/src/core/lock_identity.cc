#include <cstdlib>
#include <memory>
#include <string>

#include "lock_metrics.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/locks/internal/lock_core.h"

namespace stockade::locks_internal {
namespace {

std::string CheckedName(std::string_view kind, const LockOptions& options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) Fatal(Concat(kind, ": ", valid.message()));
  return options.name;
}

std::string_view DisplayName(std::string_view name) { return name.empty() ? "unnamed" : name; }

}  // namespace

LockIdentity::LockIdentity(std::string_view kind, const LockOptions& options)
    : kind_(kind), name_(CheckedName(kind, options)), fifo_(options.fifo) {
  if (!name_.empty() && options.metrics != nullptr) {
    metrics_ = std::make_unique<LockMetrics>(options.metrics, name_);
  }
}

LockIdentity::~LockIdentity() {
  // Its gauges' mutex may have been held by another thread when the process forked.
  if (InForkedChild()) (void)metrics_.release();
}

void LockIdentity::Die(std::string_view what) const { Fatal(Concat(kind_, " '", DisplayName(name_), "': ", what)); }

void LockIdentity::DieInForkedChild() const {
  fork_guard_.Check(kind_, DisplayName(name_));
  std::abort();  // Not reached: the guard aborts.
}

}  // namespace stockade::locks_internal
