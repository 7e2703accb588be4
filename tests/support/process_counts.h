#ifndef STOCKADE_TESTS_SUPPORT_PROCESS_COUNTS_H_
#define STOCKADE_TESTS_SUPPORT_PROCESS_COUNTS_H_

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace stockade::testing {

// Of this process. Others may begin and end while they are counted.
inline size_t CountThreads() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}
inline size_t CountDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_PROCESS_COUNTS_H_
