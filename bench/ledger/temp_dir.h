#ifndef STOCKADE_BENCH_LEDGER_TEMP_DIR_H_
#define STOCKADE_BENCH_LEDGER_TEMP_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "stockade/base/log.h"

namespace stockade::bench {

// A new directory below the build directory, whose disk is a real one where /tmp often is memory. Gone, with all that
// is in it, when this is.
class TempDir {
 public:
  TempDir() : path_(STOCKADE_BENCH_DIR "/ledger.XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) internal::Fatal("bench: cannot make a directory in " STOCKADE_BENCH_DIR);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_TEMP_DIR_H_
