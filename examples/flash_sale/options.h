#ifndef STOCKADE_EXAMPLES_FLASH_SALE_OPTIONS_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace flash_sale {

struct Options {
  bool help = false;
  bool serve = false;
  std::string audit_dir = {};  // Not empty: only audit the ledger that is there.
  std::string dir = {};        // Empty: a fresh temporary directory.
  std::string trace = {};      // Empty: Zipf.
  int64_t viewers = 32;
  int64_t buyers = 50'000;
  int64_t stock = 2'000;
  int64_t shards = 8;
  int64_t seconds = 6;
  uint64_t seed = 1;
  uint16_t port = 9464;

  // How long the page of the product on sale may be cached: short enough that it expires more than three times in a
  // run.
  absl::Duration hot_ttl() const;
};

// InvalidArgument, with a line for the user, on anything that is no option or out of its range.
absl::StatusOr<Options> ParseOptions(int argc, char** argv);

const char* UsageText();

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_OPTIONS_H_
