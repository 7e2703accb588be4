#ifndef STOCKADE_INVENTORY_FLEET_FLEET_CORE_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_CORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "fleet_calls.h"
#include "fleet_dispenser.h"
#include "fleet_shared.h"
#include "fleet_sql.h"
#include "inventory_core.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::inventory_internal {

// An inventory over the tables of a fleet. Callers put their calls into queues; each lane takes as many as it can,
// makes one transaction of them, and answers (fleet_workers.h). What memory says (which SKUs are scarce, which segment
// has units) only decides what a transaction tries: the tables decide what is so.
//
// The segments of a SKU are rows of stock: those of the ledger, 0, 1, 2, ..., from which any lane pays; and one per
// Redis node (FleetNodeClient), from which a lane pays what that node has given it.
class FleetCore final : public InventoryCore {
 public:
  // `dispenser`: null without Redis nodes.
  FleetCore(FleetInventoryOptions options, FleetLedger ledger, std::unique_ptr<FleetDispenser> dispenser)
      : InventoryCore(options.clock), shared_(std::move(options), std::move(ledger), std::move(dispenser)) {}
  // Answers the calls that still wait.
  ~FleetCore() override;
  // Once, before any call. ResourceExhausted: a thread cannot be started.
  absl::Status Start();

  void Await(std::span<OrderCall* const> calls) override;
  void Notify(std::shared_ptr<OrderCall> call) override;
  absl::Status ChangeSku(const SkuCall& call) override;
  absl::Status Read(ReadCall& call) override;
  absl::Status Health() const override { return shared_.queues.Health(); }

  void CheckNotForked() const override { fork_guard_.Check("Inventory", shared_.options.name); }
  bool InForkedChild() const override { return fork_guard_.InForkedChild(); }
  const absl::Status& NoMemory() const override { return shared_.checks.NoMemory(); }

 private:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // The answer; nullopt: nothing has changed, and it is to be run again.
  using Stepped = std::optional<absl::Status>;

  // The thread of a lane.
  void RunLane(int32_t index);

  // fleet_calls.cc
  // Has `done` called once, perhaps at once, with the answer to the call, of which Make() may have made the rest.
  // Throws std::bad_alloc if it was not asked for.
  void Ask(OrderCall& asker, Done done);
  // Not OK: a refusal, because the request is not valid, or by a lease.
  absl::StatusOr<std::unique_ptr<FleetGrantCall>> NewGrant(OrderCall& asker);
  // The refusal of a request that a lease allows; nullopt: the ledger has to be asked. Does not block.
  Stepped RefuseByLease(const OrderCall& asker);
  // Notes the answer to a call, and counts it if a lane was asked for units.
  static void TakeAnswer(OrderCall& call, absl::Status status);
  // Of a call that ends an order, or lets it last longer.
  void AskForChange(OrderCall& asker, Done done);
  std::unique_ptr<FleetEndCall> NewEnd(OrderId id, OrderState to, Done done) const;
  // Has a lane run a step until it has an answer, and blocks until then.
  absl::Status RunStep(std::function<Stepped(FleetLane&)> step, bool reads = false);
  // Has a lane run a step. It sets `due` if that order has to expire first, and is run again then. Does not block.
  // `expired`: how many times that was so.
  using StepUnlessDue = std::function<Stepped(FleetLane& lane, OrderId& due)>;
  void AskUnlessDue(StepUnlessDue step, Instant start, bool reads, Done done, int expired = 0);
  // Blocks until what `ask` has called has the answer.
  static absl::Status AwaitOne(absl::FunctionRef<void(Done)> ask);
  // False: the ledger cannot be used.
  bool LookUpRequest(FleetLane& lane, const std::string& request_id, const FleetHash& request, FleetRequestRow& used);
  Stepped FindOnce(FleetLane& lane, OrderCall& asker, const FindRequest& find, OrderId& due);
  // `due`: it has to expire first.
  Stepped ReadOrder(FleetLane& lane, const FindRequest& find, OrderId id, FleetOrderRow& order, bool& due);
  absl::Status DoesNotEnd(OrderId id) const;
  absl::Status ReadState(ReadCall& read);

  // fleet_returns.cc
  using FleetLatches = std::map<uint64_t, FleetLatch>;  // By SKU.
  void Return(OrderCall& asker, Done done);
  // `limbo`: where units are that came back.
  Stepped ReturnOnce(FleetLane& lane, OrderCall& asker, const FleetReturnCall& call, OrderId& due, FleetLatches& limbo);
  // The id of the call is that of a change of `order`.
  Stepped ReturnAgain(FleetLane& lane, OrderCall& asker, const FleetReturnCall& call, OrderId order,
                      FleetLatches& limbo);
  // Answers OK once the units in limbo are for sale. Until then other processes may still say that a SKU is sold out.
  void AnswerOnceMoved(FleetLatches limbo, Done done);

  // fleet_catalogue.cc
  absl::Status AddSku(const SkuCall& call);
  absl::Status RemoveSku(const SkuCall& call);
  absl::Status Restock(const SkuCall& call);
  absl::Status Reshard(const SkuCall& call);
  Stepped RunPacket(FleetLane& lane, const FleetPacket& packet);
  // False: the ledger cannot be used. `repeated`: the answer, if the id was used.
  bool FindRestock(FleetLane& lane, const SkuCall& call, const FleetHash& request, Stepped& repeated);
  Stepped RestockOnce(FleetLane& lane, const SkuCall& call, const FleetHash& request, FleetLatch& in_limbo);
  // Of the SKUs, which are SQL, of one moment.
  absl::Status AskForSkus(std::string_view which, FleetSkuRows& rows);
  absl::Status ReadSku(ReadCall& call);
  absl::Status ReadAllSkus(ReadCall& call);

  FleetShared shared_;
  ForkGuard fork_guard_;
  // Random, so that the lanes of several processes are spread over all segments.
  const int32_t first_index_ = static_cast<int32_t>(std::random_device()() >> 8);
  // Passes the answers of ...Async() to their executors: one that runs a task at once must not stop a lane.
  LazyThreadPool notifier_{1};
  std::vector<std::thread> threads_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_CORE_H_
