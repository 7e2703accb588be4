#ifndef STOCKADE_INVENTORY_FLEET_FLEET_CALLS_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_CALLS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "fleet_schema.h"
#include "order_call.h"
#include "stockade/base/instant.h"
#include "stockade/inventory/order.h"
#include "stockade/inventory/sharded_stock.h"

namespace stockade::inventory_internal {

// A server may send any number, and sums of them must not overflow. No ledger has more units, and no time, fence or
// fill is above this bound.
inline int64_t FleetClamp(int64_t number) { return std::clamp(number, -kMaxUnits, kMaxUnits); }
inline int64_t FleetSum(int64_t a, int64_t b) { return FleetClamp(FleetClamp(a) + FleetClamp(b)); }

// Lines of all orders in a packet; one order has at most 1,000. A line takes less than 1,000 bytes of any packet, so
// that all are below kLeastPacketBytes.
inline constexpr size_t kMaxLines = 2048;
static_assert(kMaxLines * 1'000 < kLeastPacketBytes);
// An order with more lines is large. Large orders end in packets of their own, so that others need not wait for many.
inline constexpr size_t kSmallLines = 16;

// Between attempts to use a ledger that cannot be used.
inline constexpr absl::Duration kFleetFirstPause = absl::Milliseconds(20);
inline constexpr absl::Duration kFleetLongestPause = absl::Seconds(1);

struct FleetCall {
  static constexpr int kSurprisesInCompany = 8;
  static constexpr int kMaxSurprises = 256;

  Instant start;
  // Transactions with it that a surprise has rolled back. After some it has one of its own, so that rows that do not
  // fit together stop no other call; after `max_surprises` it is given up.
  int surprises = 0;
  int max_surprises = kMaxSurprises;
  bool in_doubt = false;  // A transaction with it was perhaps committed.
  bool reads = false;     // It changes nothing.
  absl::AnyInvocable<void(absl::Status)> done;
};

// A Take, Reserve or ReserveBasket.
struct FleetGrantCall : FleetCall {
  OrderKind kind;
  absl::InlinedVector<OrderLine, 1> lines;  // Ascending by SKU, each once.
  absl::InlinedVector<uint64_t, 1> skus;    // Their ids in the tables.
  std::string request_id;
  std::string buyer;
  absl::Duration ttl;
  FleetHash request;
  FleetHash buyer_hash;
  OrderId tried = 0;                  // The order of the last transaction with it.
  uint64_t imported_fingerprint = 0;  // If the fleet has those of an imported ledger.
  // The ledger is read before a transaction tries to take the units: whether the id has taken units already, whether
  // there are units, whether the buyer may have them.
  bool look = false;
  OrderCall* asker;  // Stays until `done` was called.
};

// A Commit, a Cancel, an Extend, or the expiry of an order.
struct FleetEndCall : FleetCall {
  OrderId id;
  OrderState to;               // What the order becomes; kHeld: it lasts longer.
  int64_t ttl_us = 0;          // Of an Extend.
  size_t lines = 1;            // Of the order, as far as it is known.
  bool is_large = false;       // It is known to be.
  OrderCall* asker = nullptr;  // Of an Extend: gets the end. Stays until `done` was called.
};

// What a Return() asks for.
struct FleetReturnCall {
  OrderId id = 0;
  ChangeKind kind = ChangeKind::kReturn;
  std::string request_id = {};
  FleetHash request = {};
  std::vector<OrderLine> lines = {};  // Ascending by SKU, each once. None: all that is left.
  std::vector<uint64_t> skus = {};    // Their ids in the tables.
};

inline size_t LinesOf(const FleetGrantCall& call) { return call.lines.size(); }
inline size_t LinesOf(const FleetEndCall& call) { return call.lines; }

class FleetLane;

// Any other call. A lane's thread calls `run` until it returns the answer; nullopt: the ledger could not be used, or
// the transaction has to be run again, and nothing has changed.
struct FleetStepCall : FleetCall {
  std::function<std::optional<absl::Status>(FleetLane&)> run;
};

using FleetGrants = std::vector<std::unique_ptr<FleetGrantCall>>;
using FleetEnds = std::vector<std::unique_ptr<FleetEndCall>>;

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_CALLS_H_
