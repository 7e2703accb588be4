#ifndef STOCKADE_EXAMPLES_FLASH_SALE_WORKSPACE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_WORKSPACE_H_

#include <string>

#include "absl/status/statusor.h"

namespace flash_sale {

// The files of a run.
struct Workspace {
  explicit Workspace(const std::string& dir)
      : dir(dir),
        catalogue(dir + "/catalogue.db"),
        naive_orders(dir + "/naive.db"),
        ledger(dir + "/ledger.db"),
        ack_log(dir + "/acknowledged.log") {}

  // Removes the orders of a sale that is over, of both halves; the catalogue stays.
  absl::Status RemoveOrders() const;

  std::string dir;
  std::string catalogue;
  std::string naive_orders;
  std::string ledger;
  std::string ack_log;
};

// Makes `dir` where it is not there, or a temporary directory where it is empty. Errors: it cannot be written, or has
// files of an earlier run.
absl::StatusOr<Workspace> MakeWorkspace(const std::string& dir);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_WORKSPACE_H_
