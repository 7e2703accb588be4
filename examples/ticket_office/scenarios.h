#ifndef STOCKADE_EXAMPLES_TICKET_OFFICE_SCENARIOS_H_
#define STOCKADE_EXAMPLES_TICKET_OFFICE_SCENARIOS_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "sellers.h"
#include "ticket_store.h"

namespace ticket_office {

struct Scenario {
  char letter;
  const char* what;  // For the table.
  // Lets `count` sellers sell everything, with what befalls them.
  absl::Status (*run)(Sellers& sellers, int64_t count);
  // Says in one sentence how the scenario went wrong.
  std::string (*tell)(const Figures& figures, int64_t count);
};

// In the order of their letters.
std::span<const Scenario> Scenarios();

}  // namespace ticket_office

#endif  // STOCKADE_EXAMPLES_TICKET_OFFICE_SCENARIOS_H_
