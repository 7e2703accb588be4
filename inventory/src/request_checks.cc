#include "request_checks.h"

#include "stockade/base/printable.h"
#include "stockade/base/strings.h"
#include "stockade/base/unknown_outcome.h"

namespace stockade::inventory_internal {

RequestChecks::RequestChecks(std::string inventory)
    : inventory_(std::move(inventory)),
      no_memory_(Refused(Refusal::kUnavailable, "nothing has changed: there is no memory")),
      no_memory_in_doubt_(InDoubt("there is no memory")) {}

std::string RequestChecks::Text(std::string_view what) const { return Concat("Inventory '", inventory_, "': ", what); }

absl::Status RequestChecks::Invalid(std::string_view what) const { return Refused(Refusal::kInvalid, Printable(what)); }

absl::Status RequestChecks::TooLong(std::string_view what, size_t bytes, size_t most) const {
  // Without the name itself: the text may go to a log.
  return Invalid(Concat("the ", what, " has ", bytes, " bytes; at most ", most, " are allowed"));
}

absl::Status RequestChecks::NoRequestId() const { return Invalid("the request_id is empty"); }

absl::Status RequestChecks::TooFew(std::string_view request_id, std::string_view sku, int64_t quantity) const {
  return Invalid(
      Concat("request '", request_id, "' wants ", quantity, " units of '", sku, "'; the quantity must be at least 1"));
}

absl::Status RequestChecks::Check(OrderCall& call) const {
  if (absl::Status valid = CheckNames(*call.request_id, *call.buyer); !valid.ok()) return valid;
  if (call.kind == LedgerRecord::Kind::kReserveBasket) {
    if (absl::Status valid = SumUp(call); !valid.ok()) return valid;
  } else if (absl::Status valid = CheckLine(call, call.lines[0].sku, call.lines[0].quantity); !valid.ok()) {
    return valid;
  }
  call.ttl = WholeMicroseconds(call.ttl);
  if (call.ttl > absl::ZeroDuration()) return absl::OkStatus();
  return Invalid(Concat("request '", *call.request_id, "' has a ttl below a microsecond"));
}

absl::Status RequestChecks::CheckExtend(OrderCall& call) const {
  call.ttl = WholeMicroseconds(call.ttl);
  if (call.ttl > absl::ZeroDuration()) return absl::OkStatus();
  return Invalid(Concat("Extend of order ", call.id, " has a ttl below a microsecond"));
}

absl::Status RequestChecks::CheckReturn(OrderCall& call) const {
  absl::Status valid = CheckNames(*call.request_id, "");
  return valid.ok() && !call.basket.empty() ? SumUp(call) : valid;
}

absl::Status RequestChecks::CheckFind(const FindRequest& request) const {
  if ((request.order == 0) == request.request_id.empty()) {
    return Invalid(request.order == 0 ? "Find names neither an order nor a request_id"
                                      : Concat("Find names order ", request.order, " and also a request_id"));
  }
  absl::Status valid = CheckLength("request_id", request.request_id, kMaxRequestIdBytes);
  return valid.ok() ? CheckLength("buyer", request.buyer.value_or(""), kMaxBuyerBytes) : valid;
}

absl::Status RequestChecks::SumUp(OrderCall& call) const {
  const auto invalid = [&](const auto&... what) {
    return Invalid(
        Concat("the ", call.is_return() ? "return" : "basket", " of request '", *call.request_id, "' ", what...));
  };
  if (call.basket.empty()) return invalid("has no lines");
  if (call.basket.size() > kMaxBasketLines) {
    return invalid("has ", call.basket.size(), " lines; at most ", kMaxBasketLines, " are allowed");
  }
  call.lines.reserve(call.basket.size());
  for (const OrderLine& line : call.basket) {
    if (absl::Status valid = CheckLine(call, line.sku, line.quantity); !valid.ok()) return valid;
    call.lines.push_back({.sku = line.sku, .quantity = line.quantity});
  }
  std::ranges::sort(call.lines, {}, &RequestLine::sku);
  size_t last = 0;
  for (size_t i = 1; i < call.lines.size(); ++i) {
    const RequestLine line = call.lines[i];
    if (line.sku != call.lines[last].sku) {
      call.lines[++last] = line;
    } else if (__builtin_add_overflow(call.lines[last].quantity, line.quantity, &call.lines[last].quantity)) {
      return invalid("wants more units of '", line.sku, "' than can be counted");
    }
  }
  call.lines.resize(last + 1);
  return absl::OkStatus();
}

absl::Status RequestChecks::CheckNewSku(std::string_view call, std::string_view sku, const SkuOptions& options,
                                        bool has_redis) const {
  if (absl::Status valid = CheckLength("sku", sku, kMaxSkuBytes); !valid.ok()) return valid;
  if (absl::Status valid = CheckName(Concat(call, ": the sku"), sku); !valid.ok()) {
    return Invalid(Concat(valid.message()));
  }
  if (absl::Status valid = options.Validate(); !valid.ok()) {
    return Invalid(Concat(call, " '", sku, "': ", valid.message()));
  }
  if (options.redis_segments && !has_redis) {
    return Invalid(Concat(call, " '", sku, "': redis_segments is true, but this inventory has no Redis nodes"));
  }
  return absl::OkStatus();
}

absl::Status RequestChecks::CheckRestock(const std::string* request_id, std::string_view sku, int64_t units) const {
  if (request_id != nullptr) {
    if (absl::Status valid = CheckNames(*request_id, ""); !valid.ok()) return valid;
  }
  if (absl::Status valid = CheckLength("sku", sku, max_sku_bytes_); !valid.ok()) return valid;
  if (units >= 1) return absl::OkStatus();
  return Invalid(Concat("Restock '", sku, "': ", units, " units; at least one can be added"));
}

absl::Status RequestChecks::Refused(Refusal refusal, std::string_view what) const {
  return Refuse(refusal, Text(what));
}

absl::Status RequestChecks::InDoubt(std::string_view why) const {
  absl::Status status = Refused(Refusal::kUnavailable, Concat("not known to be durable: ", why));
  status.SetPayload(base_internal::kUnknownOutcome, absl::Cord("yes"));
  return status;
}

absl::Status RequestChecks::UnknownSku(std::string_view sku) const {
  return Refused(Refusal::kUnknownSku, Concat("there is no SKU '", sku, "'"));
}

absl::Status RequestChecks::NoSuchSku(std::string_view call, std::string_view sku) const {
  if (absl::Status valid = CheckLength("sku", sku, max_sku_bytes_); !valid.ok()) return valid;
  return Refused(Refusal::kUnknownSku, Concat(call, ": there is no SKU '", Printable(sku, 100), "'"));
}

absl::Status RequestChecks::MissingBuyer(std::string_view request_id, std::string_view sku) const {
  return Invalid(Concat("'", sku, "' has a limit per buyer, and request '", request_id, "' names no buyer"));
}

absl::Status RequestChecks::OverBuyerLimit(std::string_view buyer, int64_t has, const RequestLine& wanted,
                                           int64_t limit) const {
  return Refused(Refusal::kBuyerLimit, Concat("buyer '", Printable(buyer), "' has ", has, " units of '", wanted.sku,
                                              "' and wants ", wanted.quantity, " more, but a buyer may have ", limit));
}

absl::Status RequestChecks::SoldOut(std::string_view sku) const {
  return Refused(Refusal::kSoldOut, Concat("'", sku, "' is sold out: fewer units are left than were asked for"));
}

absl::Status RequestChecks::AllHeld(std::string_view sku) const {
  return Refused(Refusal::kAllHeld, Concat("'", sku, "' has fewer units than were asked for, but more are held"));
}

absl::Status RequestChecks::Forgotten(std::string_view request_id) const {
  return Refused(Refusal::kRequestForgotten,
                 Concat("request id '", Printable(request_id), "' was used before, and its answer is no longer kept"));
}

absl::Status RequestChecks::Mismatch(std::string_view request_id, std::string_view what) const {
  return Refused(Refusal::kRequestMismatch,
                 Concat("request id '", Printable(request_id), "' was used before, with another ", what));
}

absl::Status RequestChecks::NoSuchOrder(OrderId id) const {
  return absl::NotFoundError(Text(Concat("there is no order ", id)));
}

absl::Status RequestChecks::NoSuchOrder(const FindRequest& request) const {
  if (request.order != 0) return NoSuchOrder(request.order);
  return absl::NotFoundError(Text(Concat("there is no order of request id '", Printable(request.request_id), "'")));
}

absl::Status RequestChecks::ForgottenOrder(const FindRequest& request) const {
  return Refuse(Refusal::kRequestForgotten, absl::StatusCode::kNotFound,
                Text(Concat("request id '", Printable(request.request_id),
                            "' was used before, and its order is no longer kept")));
}

absl::Status RequestChecks::IsNoOrder(const FindRequest& request, bool is_return) const {
  return absl::NotFoundError(Text(Concat("request id '", Printable(request.request_id), "' is that of a ",
                                         is_return ? "return" : "restock", ", not of an order")));
}

absl::Status RequestChecks::WrongState(LedgerRecord::Kind call, OrderId id, OrderState state, bool all_returned) const {
  using Kind = LedgerRecord::Kind;
  const std::string_view what = call == Kind::kCommit   ? "committed"
                                : call == Kind::kCancel ? "cancelled"
                                : call == Kind::kExtend ? "extended"
                                                        : "returned";
  const auto refused = [&](Refusal refusal, std::string_view why) {
    return Refused(refusal, Concat("order ", id, " cannot be ", what, ": it ", why));
  };
  if (all_returned) return refused(Refusal::kReturned, "was sold, and all of it came back");
  if (state == OrderState::kHeld) return refused(Refusal::kWrongState, "is held");
  if (state == OrderState::kSold) return refused(Refusal::kCommitted, "is sold");
  if (state == OrderState::kCancelled) return refused(Refusal::kCancelled, "was cancelled");
  return refused(Refusal::kExpired, "has expired");
}

absl::Status RequestChecks::TooMany(OrderId id, const RequestLine& wanted, int64_t left) const {
  return Refused(Refusal::kTooMany, Concat("order ", id, " has ", left, " units of '", wanted.sku, "' left, and ",
                                           wanted.quantity, " are to be returned"));
}

absl::Status RequestChecks::NothingLeft(OrderId id) const {
  return Refused(Refusal::kTooMany, Concat("all of order ", id, " has come back"));
}

absl::Status RequestChecks::NotInOrder(OrderId id, std::string_view sku) const {
  return Invalid(Concat("order ", id, " has no units of '", sku, "'"));
}

absl::Status RequestChecks::SkuExists(std::string_view sku, bool removed) const {
  return absl::AlreadyExistsError(Text(Concat("there ", removed ? "was" : "is", " a SKU '", sku, "' already")));
}

absl::Status RequestChecks::OtherBuyerLimit(std::string_view sku, int64_t limit, int64_t wanted) const {
  return absl::FailedPreconditionError(
      Text(Concat("EnsureSku '", sku, "': its per_buyer_limit is ", limit, ", not ", wanted)));
}

absl::Status RequestChecks::TooManyUnits(std::string_view sku, int64_t units, int64_t granted) const {
  return absl::OutOfRangeError(
      Text(Concat("Restock '", sku, "': ", units, " units added to ", granted, " exceed ", kMaxUnits)));
}

}  // namespace stockade::inventory_internal
