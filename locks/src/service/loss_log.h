#ifndef STOCKADE_LOCKS_SRC_SERVICE_LOSS_LOG_H_
#define STOCKADE_LOCKS_SRC_SERVICE_LOSS_LOG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hold.h"

namespace stockade::locks_internal {

// Logs the losses that are noticed together, such as by one renewal: a line for each of the first ten, and one line for
// the rest. Used by one thread.
class LossLog {
 public:
  explicit LossLog(std::string_view service) : service_(service) {}
  ~LossLog();
  LossLog(const LossLog&) = delete;
  LossLog& operator=(const LossLog&) = delete;

  void Add(const HoldKey& key, LossReason reason, std::optional<int64_t> token);

 private:
  const std::string_view service_;
  size_t losses_ = 0;
  std::string rest_ = {};  // The first names of what has no line of its own.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_LOSS_LOG_H_
