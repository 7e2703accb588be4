#ifndef STOCKADE_TESTS_SUPPORT_AWAIT_H_
#define STOCKADE_TESTS_SUPPORT_AWAIT_H_

#include <poll.h>

#include <chrono>
#include <string_view>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

// Blocks until `holds()` is true of another process, which tells nobody when it becomes so. Aborts, with what it waited
// for, where that takes ten minutes.
template <typename Predicate>
void Await(std::string_view what, Predicate holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline)
      base_internal::Fatal(base_internal::Concat("waited in vain for ", what));
    poll(nullptr, 0, 5);
  }
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_AWAIT_H_
