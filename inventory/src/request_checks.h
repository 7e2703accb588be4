#ifndef STOCKADE_INVENTORY_REQUEST_CHECKS_H_
#define STOCKADE_INVENTORY_REQUEST_CHECKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "order_call.h"
#include "stockade/base/export.h"
#include "stockade/inventory/inventory.h"

namespace stockade::inventory_internal {

// A ttl of this length or longer is infinite: the nanoseconds of longer ones do not fit a clock.
inline constexpr absl::Duration kForever = absl::Hours(24 * 36500);

// Rounded down to what a ledger keeps.
inline absl::Duration WholeMicroseconds(absl::Duration ttl) {
  return ttl >= kForever ? absl::InfiniteDuration() : absl::Microseconds(absl::ToInt64Microseconds(ttl));
}
inline absl::Time WholeMicroseconds(absl::Time at) {
  return at == absl::InfiniteFuture() ? at : absl::FromUnixMicros(absl::ToUnixMicros(at));
}

// A status of the code that belongs to `refusal`, which RefusalOf() recognizes. Not for kNone.
STOCKADE_EXPORT absl::Status Refuse(Refusal refusal, const std::string& message);
// Of another code: that of a lookup.
absl::Status Refuse(Refusal refusal, absl::StatusCode code, const std::string& message);

// The checks that need nothing but the request, and the refusals of every core, in the same words. Thread-safe, except
// for RaiseMaxSkuBytes().
class STOCKADE_EXPORT RequestChecks {
 public:
  explicit RequestChecks(std::string inventory);

  // Accepts names of SKUs up to `bytes` from now on, except for new SKUs. Before the first request: a ledger may have
  // longer names than kMaxSkuBytes.
  void RaiseMaxSkuBytes(size_t bytes) { max_sku_bytes_ = std::max(max_sku_bytes_, bytes); }

  // OK, or kInvalid.
  //
  // `what` of a request, which is `name`, has at most `most` bytes. The text does not contain the name.
  absl::Status CheckLength(std::string_view what, std::string_view name, size_t most) const {
    return name.size() <= most ? absl::OkStatus() : TooLong(what, name.size(), most);
  }
  // Of a request. Sets the lines of a basket, and rounds the ttl down to whole microseconds; kForever and more becomes
  // infinite.
  absl::Status Check(OrderCall& call) const;
  // `call`: AddSku or EnsureSku. `has_redis`: a SKU may have redis_segments.
  absl::Status CheckNewSku(std::string_view call, std::string_view sku, const SkuOptions& options,
                           bool has_redis = false) const;
  // `request_id`: null without one.
  absl::Status CheckRestock(const std::string* request_id, std::string_view sku, int64_t units) const;

  // OK: a call that extends an order is valid; its ttl is in whole microseconds then.
  absl::Status CheckExtend(OrderCall& call) const;
  // OK: a Return() is valid; its lines are there then, or none.
  absl::Status CheckReturn(OrderCall& call) const;
  absl::Status CheckFind(const FindRequest& request) const;

  // Refusals.
  absl::Status Refused(Refusal refusal, std::string_view what) const;
  // kUnavailable, and OutcomeUnknown().
  absl::Status InDoubt(std::string_view why) const;
  // kUnknownSku, to a request for units.
  absl::Status UnknownSku(std::string_view sku) const;
  // kUnknownSku, to any other call. kInvalid: the name is too long.
  absl::Status NoSuchSku(std::string_view call, std::string_view sku) const;
  // kInvalid: the SKU has a limit per buyer.
  absl::Status MissingBuyer(std::string_view request_id, std::string_view sku) const;
  // kBuyerLimit: the buyer has `has` units of at most `limit`.
  absl::Status OverBuyerLimit(std::string_view buyer, int64_t has, const RequestLine& wanted, int64_t limit) const;
  // kSoldOut, and kAllHeld: some units are held and may come back. Without the request's numbers, so that a SKU can
  // have them made in advance; copies share the text.
  absl::Status SoldOut(std::string_view sku) const;
  absl::Status AllHeld(std::string_view sku) const;
  // kAllHeld if `unsold` units, of which some are held, would be enough; otherwise kSoldOut.
  absl::Status Short(const RequestLine& wanted, int64_t unsold) const {
    return unsold >= wanted.quantity ? AllHeld(wanted.sku) : SoldOut(wanted.sku);
  }
  // kRequestForgotten.
  absl::Status Forgotten(std::string_view request_id) const;
  // kRequestMismatch. `what`: kCallKind, or what differs of the same call.
  absl::Status Mismatch(std::string_view request_id, std::string_view what) const;
  static constexpr std::string_view kCallKind = "call (one of Reserve, ReserveBasket, Take, Return and Restock)";
  // What stands against a commit, a cancel, an extension or a return. `all_returned`: it was sold, and all came back.
  absl::Status WrongState(LedgerRecord::Kind call, OrderId id, OrderState state, bool all_returned = false) const;
  // kTooMany, to a return: the order has `left` units of that SKU; or all of it has come back.
  absl::Status TooMany(OrderId id, const RequestLine& wanted, int64_t left) const;
  absl::Status NothingLeft(OrderId id) const;
  // kInvalid, to a return.
  absl::Status NotInOrder(OrderId id, std::string_view sku) const;

  // kUnavailable: an allocation failed, and nothing has changed; or the change is written down, but perhaps not
  // durable. Made in advance, because they cannot be made then: a copy allocates nothing.
  const absl::Status& NoMemory() const { return no_memory_; }
  const absl::Status& NoMemoryInDoubt() const { return no_memory_in_doubt_; }

  // Errors that are no refusals.
  //
  // NotFound.
  absl::Status NoSuchOrder(OrderId id) const;
  absl::Status NoSuchOrder(const FindRequest& request) const;
  // NotFound, and kRequestForgotten.
  absl::Status ForgottenOrder(const FindRequest& request) const;
  // NotFound: the request id is that of a restock or a return.
  absl::Status IsNoOrder(const FindRequest& request, bool is_return) const;
  // AlreadyExists.
  absl::Status SkuExists(std::string_view sku, bool removed) const;
  // FailedPrecondition, by EnsureSku().
  absl::Status OtherBuyerLimit(std::string_view sku, int64_t limit, int64_t wanted) const;
  // OutOfRange: a restock of a SKU with `granted` units.
  absl::Status TooManyUnits(std::string_view sku, int64_t units, int64_t granted) const;

 private:
  // To be called first: the texts of the other calls contain the request id.
  absl::Status CheckNames(std::string_view request_id, std::string_view buyer) const {
    if (request_id.empty()) [[unlikely]]
      return NoRequestId();
    absl::Status valid = CheckLength("request_id", request_id, kMaxRequestIdBytes);
    return valid.ok() ? CheckLength("buyer", buyer, kMaxBuyerBytes) : valid;
  }
  absl::Status CheckLine(const OrderCall& call, std::string_view sku, int64_t quantity) const {
    absl::Status valid = CheckLength("sku", sku, max_sku_bytes_);
    return valid.ok() && quantity < 1 ? TooFew(*call.request_id, sku, quantity) : valid;
  }
  // Checks the basket of a request or a return, and makes lines of it. Those of the same SKU are added up.
  absl::Status SumUp(OrderCall& call) const;
  std::string Text(std::string_view what) const;
  // `what` may have a caller's bytes, and goes into logs.
  absl::Status Invalid(std::string_view what) const;
  absl::Status TooLong(std::string_view what, size_t bytes, size_t most) const;
  absl::Status NoRequestId() const;
  absl::Status TooFew(std::string_view request_id, std::string_view sku, int64_t quantity) const;

  const std::string inventory_;
  const absl::Status no_memory_;
  const absl::Status no_memory_in_doubt_;
  size_t max_sku_bytes_ = kMaxSkuBytes;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_REQUEST_CHECKS_H_
