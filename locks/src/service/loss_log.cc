#include "loss_log.h"

#include "shown_lock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

constexpr size_t kLines = 10;
constexpr size_t kNamesOfTheRest = 3;

}  // namespace

LossLog::~LossLog() {
  if (losses_ <= kLines) return;
  Log(LogSeverity::kWarning, Concat("lock service '", service_, "': ", losses_ - kLines, " more were lost: ", rest_,
                                    losses_ - kLines > kNamesOfTheRest ? ", ..." : ""));
}

void LossLog::Add(const HoldKey& key, LossReason reason, std::optional<int64_t> token) {
  if (++losses_ <= kLines) {
    Log(LogSeverity::kWarning, Concat("lock service '", service_, "': ", LostError(key, reason).message(),
                                      token ? Concat(" (token ", *token, ")") : ""));
  } else if (losses_ <= kLines + kNamesOfTheRest) {
    rest_ += Concat(rest_.empty() ? "" : ", ", ShownLock(key.name), " (", LockKindName(key.kind), ")");
  }
}

}  // namespace stockade::locks_internal
