// The main function of every test program. It ends with the command that repeats each failed test, and with the
// processor time that the program and its child processes took, which scripts/ci-times reads.

#include <sys/resource.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/needs_program.h"

namespace {

class RepeatPrinter : public ::testing::EmptyTestEventListener {
 public:
  explicit RepeatPrinter(std::string program) : program_(std::move(program)) {}

  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    std::cout << "repeat: " << program_ << " --gtest_filter='" << test.test_suite_name() << '.' << test.name() << "'\n"
              << std::flush;
  }

 private:
  const std::string program_;
};

// Of the calling process, or of all its children that have ended.
double ProcessorSeconds(__rusage_who who) {
  rusage usage = {};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string program = argv[0];
  ::testing::InitGoogleMock(&argc, argv);
  ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  tests.listeners().Append(new RepeatPrinter(program));  // GoogleTest owns it.
  const int result = RUN_ALL_TESTS();
  if (!GTEST_FLAG_GET(list_tests)) {
    std::cout << "processor time: " << std::fixed << std::setprecision(2)
              << ProcessorSeconds(RUSAGE_SELF) + ProcessorSeconds(RUSAGE_CHILDREN) << " s\n";
  }
  if (result != EXIT_SUCCESS) return result;
  if (tests.test_to_run_count() == 0 && !GTEST_FLAG_GET(list_tests)) {
    std::cerr << program << ": no test has a name of this filter: " << GTEST_FLAG_GET(filter) << '\n';
    return EXIT_FAILURE;
  }
  return tests.skipped_test_count() > 0 ? stockade::testing::kSkippedStatus : EXIT_SUCCESS;
}
