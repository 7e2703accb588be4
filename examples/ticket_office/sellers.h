#ifndef STOCKADE_EXAMPLES_TICKET_OFFICE_SELLERS_H_
#define STOCKADE_EXAMPLES_TICKET_OFFICE_SELLERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process.h"
#include "seller.h"

namespace ticket_office {

using examples::Process;

// The processes that sell in one scenario, and when the paused ones continue. Sellers are identified by their number,
// in the order of their start. If a seller fails, or ends instead of being paused, the status is Internal.
class Sellers {
 public:
  // `plan`: for all sellers, except their fates.
  Sellers(std::string program, SellerPlan plan) : program_(std::move(program)), plan_(std::move(plan)) {}

  absl::Status Start(int64_t count, Fate fate = Fate::kNone);

  // Each blocks until it is so.
  absl::Status AwaitPaused(size_t seller);
  absl::Status AwaitCrashed(size_t seller);
  absl::Status AwaitHome(size_t seller);  // It has nothing more to sell.
  absl::Status AwaitAllHome();

  void Continue(size_t seller) { processes_[seller].Continue(); }
  // Until all are home: waits until all that are not are paused, and continues them.
  absl::Status KeepInStep();

 private:
  // Ok: paused, or home.
  absl::StatusOr<Process::State> Await(size_t seller);

  const std::string program_;
  const SellerPlan plan_;
  std::vector<Process> processes_;
};

}  // namespace ticket_office

#endif  // STOCKADE_EXAMPLES_TICKET_OFFICE_SELLERS_H_
