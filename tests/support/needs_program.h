#ifndef STOCKADE_TESTS_SUPPORT_NEEDS_PROGRAM_H_
#define STOCKADE_TESTS_SUPPORT_NEEDS_PROGRAM_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <sstream>
#include <string>

// Ends the test that cannot do without a thing that is not `here`, and names Debian's package of it: skipped on a
// user's machine; failed where CI is set, so that no run there leaves it out unseen. For the body of a test, or
// SetUp().
#define STOCKADE_NEEDS(here, thing, package) \
  if (here) {                                \
  } else if (getenv("CI") != nullptr)        \
    FAIL() << thing << " is missing, in CI"; \
  else                                       \
    GTEST_SKIP() << thing << " is missing: Debian's package " << package

// The same for a program in PATH.
#define STOCKADE_NEEDS_PROGRAM(program, package) STOCKADE_NEEDS(::stockade::testing::InPath(program), program, package)

namespace stockade::testing {

// The exit status of a test program of which no test failed and at least one was skipped. ctest shows it as "Skipped".
inline constexpr int kSkippedStatus = 77;

inline bool InPath(const std::string& program) {
  const char* const path = getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_NEEDS_PROGRAM_H_
