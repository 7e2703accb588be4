// Crashes, hangs or leaves on what says so: what replay_main.cc must report.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input == "abort") std::abort();
  if (input == "exit") std::_Exit(0);
  volatile bool hang = input == "hang";
  while (hang) {
  }
  return 0;
}
