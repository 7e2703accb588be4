#include "stockade/inventory/refusal.h"

#include <string>

#include "absl/strings/cord.h"
#include "request_checks.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

// A payload, because a code alone does not tell: FailedPrecondition is that of several refusals, and of other errors.
constexpr char kPayload[] = "stockade.inventory/refusal";

constexpr Refusal kAll[] = {Refusal::kSoldOut,          Refusal::kAllHeld,    Refusal::kUnknownSku,
                            Refusal::kUnavailable,      Refusal::kBuyerLimit, Refusal::kRequestMismatch,
                            Refusal::kRequestForgotten, Refusal::kInvalid,    Refusal::kExpired,
                            Refusal::kCancelled,        Refusal::kCommitted};

absl::StatusCode CodeOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone: return absl::StatusCode::kOk;
    case Refusal::kSoldOut: return absl::StatusCode::kResourceExhausted;
    case Refusal::kAllHeld: return absl::StatusCode::kAborted;
    case Refusal::kUnknownSku: return absl::StatusCode::kNotFound;
    case Refusal::kUnavailable: return absl::StatusCode::kUnavailable;
    case Refusal::kBuyerLimit:
    case Refusal::kExpired:
    case Refusal::kCancelled:
    case Refusal::kCommitted: return absl::StatusCode::kFailedPrecondition;
    case Refusal::kRequestMismatch:
    case Refusal::kRequestForgotten: return absl::StatusCode::kAlreadyExists;
    case Refusal::kInvalid: return absl::StatusCode::kInvalidArgument;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

std::string_view RefusalName(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone: return "none";
    case Refusal::kSoldOut: return "sold_out";
    case Refusal::kAllHeld: return "all_held";
    case Refusal::kUnknownSku: return "unknown_sku";
    case Refusal::kUnavailable: return "unavailable";
    case Refusal::kBuyerLimit: return "buyer_limit";
    case Refusal::kRequestMismatch: return "request_mismatch";
    case Refusal::kRequestForgotten: return "request_forgotten";
    case Refusal::kInvalid: return "invalid";
    case Refusal::kExpired: return "expired";
    case Refusal::kCancelled: return "cancelled";
    case Refusal::kCommitted: return "committed";
  }
  return "unknown";
}

Refusal RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return Refusal::kNone;
  for (const Refusal refusal : kAll) {
    if (CodeOf(refusal) != status.code()) continue;
    if (*payload == base_internal::AbslView(RefusalName(refusal))) return refusal;
  }
  return Refusal::kNone;
}

namespace inventory_internal {

absl::Status Refuse(Refusal refusal, const std::string& message) {
  absl::Status status(CodeOf(refusal), message);
  status.SetPayload(kPayload, absl::Cord(AbslView(RefusalName(refusal))));
  return status;
}

}  // namespace inventory_internal
}  // namespace stockade
