#include "local_core.h"

#include <new>

#include "stockade/base/strings.h"
#include "stockade/base/thread_slot.h"
#include "stockade/locks/internal/thread_record.h"

namespace stockade::inventory_internal {

LocalCore::LocalCore(InventoryOptions options)
    : InventoryCore(options.clock),
      buyers_(static_cast<size_t>(options.stripes)),
      orders_(static_cast<size_t>(options.stripes), options.retention),
      name_(std::move(options.name)),
      checks_(name_),
      ledger_(std::move(options.ledger)),
      clock_(options.clock),
      max_shards_(options.max_shards),
      retention_(options.retention),
      max_hold_(options.max_hold),
      sku_metrics_(options.metrics, name_, options.sku_metrics),
      metrics_(options.metrics, InventoryMetricDefs(), {{"inventory", name_}}),
      stock_metrics_(options.metrics, StockMetricDefs(), {{"inventory", name_}}) {
  AddGauges();
  (void)ThisThreadSlot();  // The first one in the process allocates.
}

// The reaper uses everything else, and what the ledger still has to tell all but the reaper.
LocalCore::~LocalCore() {
  {
    const MutexLock lock(sku_changes_mutex_);
    closing_.store(true, std::memory_order_seq_cst);
  }
  reaper_.reset();
  ledger_.reset();
}

void LocalCore::Await(std::span<OrderCall* const> calls) {
  for (OrderCall* const call : calls) Ask(*call);
  for (OrderCall* const call : calls) Answer(*call, AwaitDurable(call->position));
}

void LocalCore::Notify(std::shared_ptr<OrderCall> call) {
  OrderCall& asked = *call;
  asked.core = this;
  Ask(asked);
  // Fits into an AnyInvocable.
  const auto answer = [call = std::move(call)](const absl::Status& durable) {
    static_cast<LocalCore*>(call->core)->Answer(*call, durable);
    call->Deliver(call);
  };
  if (asked.position == 0) return answer(absl::OkStatus());
  try {
    ledger_->NotifyDurable(asked.position, answer);
  } catch (const std::bad_alloc&) {
    answer(checks_.NoMemoryInDoubt());
  }
}

void LocalCore::Ask(OrderCall& call) {
  try {
    call.status = call.is_request()      ? Grant(call)
                  : call.find != nullptr ? Find(call)
                  : call.is_return()     ? Return(call)
                                         : ChangeOrder(call);
  } catch (const std::bad_alloc&) {
    call.status = NoMemory();
    call.position = 0;
    call.refusal = Refusal::kNone;
    call.timed = false;
  }
}

void LocalCore::Answer(OrderCall& call, const absl::Status& durable) {
  if (absl::Status known = Outcome(call.position, durable); !known.ok()) {
    call.status = std::move(known);
    call.refusal = Refusal::kNone;
  }
  if (call.is_request()) CountAnswer(call);
}

absl::Status LocalCore::AwaitDurable(uint64_t position) const {
  try {
    return position == 0 ? absl::OkStatus() : ledger_->AwaitDurable(position);
  } catch (const std::bad_alloc&) {
    return checks_.NoMemoryInDoubt();
  }
}

absl::Status LocalCore::NotDurable(const absl::Status& why) {
  if (why == checks_.NoMemoryInDoubt()) return why;
  const bool refused = absl::IsResourceExhausted(why);
  try {
    if (refused) UndoRefusedRecords();
    if (!refused) return checks_.InDoubt(Concat(why.message()));
    return checks_.Refused(Refusal::kUnavailable, Concat("nothing has changed: ", why.message()));
  } catch (const std::bad_alloc&) {
    // If refused records could not be undone, every later call that changes something undoes them first.
    return refused ? checks_.NoMemory() : checks_.NoMemoryInDoubt();
  }
}

absl::Status LocalCore::Finish(PendingStatus settled) {
  absl::Status outcome = Outcome(settled.position, AwaitDurable(settled.position));
  return outcome.ok() ? std::move(settled.status) : outcome;
}

absl::Status LocalCore::AskLedger() {
  absl::Status health = LedgerHealth();
  // If there is no room later, the operation that meets this is refused then.
  if (absl::IsResourceExhausted(health)) {
    UndoRefusedRecords();
    return absl::OkStatus();
  }
  return health.ok()
             ? health
             : checks_.Refused(Refusal::kUnavailable, Concat("nothing has changed by this call: ", health.message()));
}

absl::Status LocalCore::Health() const {
  absl::Status health = LedgerHealth();
  return health.ok() ? health : checks_.Refused(Refusal::kUnavailable, Concat(health.message()));
}

absl::Status LocalCore::LedgerHealth() const {
  if (closing_.load(std::memory_order_relaxed)) [[unlikely]]
    return absl::UnavailableError("it is being destroyed");
  if (ledger_ == nullptr) return absl::OkStatus();
  absl::Status health = ledger_->Health();
  if (health.ok()) return health;
  return absl::Status(health.code(), Concat("the ledger writes nothing: ", health.message()));
}

BuyerBook::Lock LocalCore::LockBuyer(bool has_limit, const std::string& buyer) {
  return has_limit ? buyers_.LockFor(buyer) : BuyerBook::Lock();
}

std::vector<std::unique_lock<Ranked<ReentrantMutex>>> LocalCore::LockAllOrders() {
  locks_internal::ThreadRecord::Reserve(orders_.stripe_count() + locks_internal::ThreadRecord::kUsualHolds);
  std::vector<std::unique_lock<Ranked<ReentrantMutex>>> locks;
  locks.reserve(orders_.stripe_count());
  for (size_t i = 0; i < orders_.stripe_count(); ++i) locks.emplace_back(orders_.stripe(i).mutex);
  return locks;
}

}  // namespace stockade::inventory_internal
