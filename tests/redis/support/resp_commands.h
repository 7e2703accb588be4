#ifndef STOCKADE_TESTS_REDIS_SUPPORT_RESP_COMMANDS_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_RESP_COMMANDS_H_

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>

namespace stockade::testing {

// Takes the first whole command of a client off `bytes`: its words with a blank between them. Nothing: it is not all
// there yet.
inline std::optional<std::string> TakeCommand(std::string& bytes) {
  size_t at = 0;
  const auto number = [&]() -> std::optional<size_t> {
    const size_t end = bytes.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    const auto value = static_cast<size_t>(std::atoll(bytes.c_str() + at + 1));
    at = end + 2;
    return value;
  };
  const std::optional<size_t> words = number();
  if (!words) return std::nullopt;
  std::string command;
  for (size_t i = 0; i < *words; ++i) {
    const std::optional<size_t> size = number();
    if (!size || at + *size + 2 > bytes.size()) return std::nullopt;
    command += (i == 0 ? "" : " ") + bytes.substr(at, *size);
    at += *size + 2;
  }
  bytes.erase(0, at);
  return command;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_RESP_COMMANDS_H_
