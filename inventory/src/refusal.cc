#include "stockade/inventory/refusal.h"

#include <string>

#include "absl/strings/cord.h"
#include "request_checks.h"
#include "stockade/base/strings.h"
#include "stockade/base/unknown_outcome.h"

namespace stockade {
namespace {

// A payload, because a code alone does not tell: FailedPrecondition is that of several refusals, and of other errors.
constexpr char kPayload[] = "stockade.inventory/refusal";

constexpr Refusal kAll[] = {Refusal::kSoldOut,          Refusal::kAllHeld,    Refusal::kUnknownSku,
                            Refusal::kUnavailable,      Refusal::kBuyerLimit, Refusal::kRequestMismatch,
                            Refusal::kRequestForgotten, Refusal::kInvalid,    Refusal::kExpired,
                            Refusal::kCancelled,        Refusal::kCommitted,  Refusal::kReturned,
                            Refusal::kWrongState,       Refusal::kTooMany};

struct RefusalTerms {
  std::string_view name;
  absl::StatusCode code;
};

RefusalTerms TermsOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone: return {"none", absl::StatusCode::kOk};
    case Refusal::kSoldOut: return {"sold_out", absl::StatusCode::kResourceExhausted};
    case Refusal::kAllHeld: return {"all_held", absl::StatusCode::kAborted};
    case Refusal::kUnknownSku: return {"unknown_sku", absl::StatusCode::kNotFound};
    case Refusal::kUnavailable: return {"unavailable", absl::StatusCode::kUnavailable};
    case Refusal::kBuyerLimit: return {"buyer_limit", absl::StatusCode::kFailedPrecondition};
    case Refusal::kRequestMismatch: return {"request_mismatch", absl::StatusCode::kAlreadyExists};
    case Refusal::kRequestForgotten: return {"request_forgotten", absl::StatusCode::kAlreadyExists};
    case Refusal::kInvalid: return {"invalid", absl::StatusCode::kInvalidArgument};
    case Refusal::kExpired: return {"expired", absl::StatusCode::kFailedPrecondition};
    case Refusal::kCancelled: return {"cancelled", absl::StatusCode::kFailedPrecondition};
    case Refusal::kCommitted: return {"committed", absl::StatusCode::kFailedPrecondition};
    case Refusal::kReturned: return {"returned", absl::StatusCode::kFailedPrecondition};
    case Refusal::kWrongState: return {"wrong_state", absl::StatusCode::kFailedPrecondition};
    case Refusal::kTooMany: return {"too_many", absl::StatusCode::kFailedPrecondition};
  }
  return {"unknown", absl::StatusCode::kUnknown};
}

}  // namespace

std::string_view RefusalName(Refusal refusal) { return TermsOf(refusal).name; }

Refusal RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return Refusal::kNone;
  for (const Refusal refusal : kAll) {
    const auto [name, code] = TermsOf(refusal);
    const bool is_lookup = refusal == Refusal::kRequestForgotten && absl::IsNotFound(status);
    if ((code == status.code() || is_lookup) && *payload == base_internal::AbslView(name)) return refusal;
  }
  return Refusal::kNone;
}

bool OutcomeUnknown(const absl::Status& status) {
  if (status.GetPayload(base_internal::kUnknownOutcome).has_value()) return true;
  const bool may_lack_memory =
      absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
  return may_lack_memory && status.message().empty();
}

namespace inventory_internal {

absl::Status Refuse(Refusal refusal, const std::string& message) {
  return Refuse(refusal, TermsOf(refusal).code, message);
}

absl::Status Refuse(Refusal refusal, absl::StatusCode code, const std::string& message) {
  absl::Status status(code, message);
  status.SetPayload(kPayload, absl::Cord(AbslView(TermsOf(refusal).name)));
  return status;
}

}  // namespace inventory_internal
}  // namespace stockade
