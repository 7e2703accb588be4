#ifndef STOCKADE_EXAMPLES_TICKET_OFFICE_OPTIONS_H_
#define STOCKADE_EXAMPLES_TICKET_OFFICE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ticket_office {

struct Options {
  bool help = false;
  std::string redis = {};     // Empty: a server of our own.
  std::string locks = {};     // For ConnectLockService(). Empty: where the tickets are.
  std::string scenario = {};  // A letter; empty: all.
  int64_t tickets = 20;
  int64_t sellers = 4;
};

// InvalidArgument, with a line for the user, on anything that is no option or out of its range.
absl::StatusOr<Options> ParseOptions(int argc, char** argv);

const char* UsageText();

}  // namespace ticket_office

#endif  // STOCKADE_EXAMPLES_TICKET_OFFICE_OPTIONS_H_
