#ifndef STOCKADE_EXAMPLES_FLASH_SALE_SLEEP_UNTIL_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_SLEEP_UNTIL_H_

#include <chrono>
#include <thread>

#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"

namespace flash_sale {

inline void SleepUntil(stockade::Instant at) {
  const absl::Duration left = at - stockade::Clock::System()->Now();
  if (left > absl::ZeroDuration()) std::this_thread::sleep_for(absl::ToChronoNanoseconds(left));
}

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_SLEEP_UNTIL_H_
