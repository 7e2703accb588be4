#ifndef STOCKADE_TESTS_SUPPORT_SERVER_CLOCK_H_
#define STOCKADE_TESTS_SUPPORT_SERVER_CLOCK_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "support/temp_dir.h"

namespace stockade::testing {

// The wall clock of servers that are started with environment(). Outlives them. The clocks of waits do not step.
class ServerClock {
 public:
  ServerClock() { Step(absl::ZeroDuration()); }

  // At once.
  void Step(absl::Duration by) {
    ahead_us_ += absl::ToInt64Microseconds(by);
    // Not emptied: servers have it mapped.
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    if (!file) file.open(path(), std::ios::binary | std::ios::out);
    file.write(reinterpret_cast<const char*>(&ahead_us_), sizeof ahead_us_);
  }

  std::vector<std::string> environment() const {
    return {std::string("LD_PRELOAD=") + STOCKADE_SERVER_CLOCK_SHIM, "STOCKADE_SERVER_CLOCK=" + path()};
  }

 private:
  std::string path() const { return dir_.File("ahead"); }

  TempDir dir_;
  int64_t ahead_us_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_SERVER_CLOCK_H_
