#ifndef STOCKADE_INVENTORY_REFUSAL_H_
#define STOCKADE_INVENTORY_REFUSAL_H_

#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"

namespace stockade {

// Why an Inventory refused a request. A Status of another origin, or OK, is kNone.
enum class Refusal {
  kNone,
  kSoldOut,           // ResourceExhausted: fewer units than wanted, even with all that is held.
  kAllHeld,           // Aborted: fewer units than wanted, but some are held and may come back. Advisory.
  kUnknownSku,        // NotFound.
  kUnavailable,       // Unavailable: the ledger has no room, and nothing has changed; or it has failed, and whether the
                      // request is written down is not known. The text says which.
  kBuyerLimit,        // FailedPrecondition: the buyer would have more than one may.
  kRequestMismatch,   // AlreadyExists: the request id was used before, with other parameters.
  kRequestForgotten,  // AlreadyExists: the request id was used before, longer ago than answers are remembered.
  kInvalid,           // InvalidArgument: the request itself is wrong.
};

// Thread-safe; looks at the status only.
STOCKADE_EXPORT Refusal RefusalOf(const absl::Status& status);

// "sold_out", "all_held", ...: as in the metric stockade_inventory_refusals_total; "none" for kNone.
STOCKADE_EXPORT std::string_view RefusalName(Refusal refusal);

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_REFUSAL_H_
