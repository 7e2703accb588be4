#ifndef STOCKADE_BENCH_LEDGER_TEMP_DIR_H_
#define STOCKADE_BENCH_LEDGER_TEMP_DIR_H_

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "stockade/base/log.h"

namespace stockade::bench {

// A new directory below the build directory, whose disk is a real one where /tmp often is memory. Gone, with all that
// is in it, when this is. What a bench that was killed has left there, the next one removes.
class TempDir {
 public:
  TempDir() : path_(STOCKADE_BENCH_DIR "/" + kPrefix + std::to_string(::getpid()) + ".XXXXXX") {
    RemoveLeftOvers();
    if (::mkdtemp(path_.data()) == nullptr)
      base_internal::Fatal("bench: cannot create a directory in " STOCKADE_BENCH_DIR);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  static inline const std::string kPrefix = "data.";

  static void RemoveLeftOvers() {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(STOCKADE_BENCH_DIR, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind(kPrefix, 0) != 0) continue;
      const auto owner = static_cast<pid_t>(std::strtol(name.c_str() + kPrefix.size(), nullptr, 10));
      if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), ignored);
    }
  }

  std::string path_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_TEMP_DIR_H_
