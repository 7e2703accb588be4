#ifndef STOCKADE_INVENTORY_REFUSAL_H_
#define STOCKADE_INVENTORY_REFUSAL_H_

#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"

namespace stockade {

// The reason why an Inventory refused a request. kNone for OK, for other errors, and for a Status that no Inventory
// returned. The metric stockade_inventory_refusals_total counts refused requests for units, that is those up to
// kInvalid.
enum class Refusal {
  kNone,
  kSoldOut,           // ResourceExhausted: fewer units than wanted, even including those that are held.
  kAllHeld,           // Aborted: fewer units than wanted, but held units may come back. Advisory.
  kUnknownSku,        // NotFound.
  kUnavailable,       // Unavailable: the ledger has no room, or there is no memory, and nothing has changed; or the
                      // ledger has failed, and it is not known whether the request was recorded; or it had failed
                      // before, and this call has changed nothing. The message says which.
  kBuyerLimit,        // FailedPrecondition: the buyer would exceed the limit per buyer.
  kRequestMismatch,   // AlreadyExists: the request id was used before with other parameters.
  kRequestForgotten,  // AlreadyExists: the request id was used before, and its answer is no longer kept. NotFound if
                      // it comes from Find().
  kInvalid,           // InvalidArgument: the request is invalid.
  // FailedPrecondition, to Commit(), Cancel(), Extend() and Return(). No metric counts these six.
  kExpired,     // A commit, an extension or a return: the reservation has expired.
  kCancelled,   // A commit, an extension or a return: the reservation was cancelled.
  kCommitted,   // A cancel or an extension: the order is sold.
  kReturned,    // A commit, a cancel or an extension: the order was sold, and all of it came back.
  kWrongState,  // A return: the order is a reservation that is still held.
  kTooMany,     // A return: of more units than the order has left.
};

// Uses only the status. Thread-safe.
STOCKADE_EXPORT Refusal RefusalOf(const absl::Status& status);

// Whether a call that failed with this status may have changed something all the same, or may do so later: its message
// says "not known to be durable" or "the outcome is unknown". The same request, sent again, shows the outcome. True
// also of a Cancelled, DeadlineExceeded or ResourceExhausted without a message: there was no memory for it.
// Thread-safe.
STOCKADE_EXPORT bool OutcomeUnknown(const absl::Status& status);

// "sold_out", "all_held", ...: as in the metric stockade_inventory_refusals_total, which has no label for the last
// six; "none" for kNone.
STOCKADE_EXPORT std::string_view RefusalName(Refusal refusal);

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_REFUSAL_H_
