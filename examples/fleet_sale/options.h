#ifndef STOCKADE_EXAMPLES_FLEET_SALE_OPTIONS_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_OPTIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace fleet_sale {

struct Options {
  bool help = false;
  bool serve = false;
  int64_t buyers = 50'000;
  int64_t stock = 2'000;
  int64_t seconds = 8;
  uint16_t port = 9465;
};

// InvalidArgument, with a line for the user, if an argument is not an option or is out of its range.
absl::StatusOr<Options> ParseOptions(int argc, char** argv);

const char* UsageText();

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_OPTIONS_H_
