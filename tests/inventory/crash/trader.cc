#include "inventory/crash/trader.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stockade::testing {
namespace {

ReserveRequest ReserveOf(const Key& key, const Plan& plan) {
  return {.sku = plan.lines[0].sku,
          .quantity = plan.lines[0].quantity,
          .request_id = key.request_id(),
          .buyer = plan.buyer,
          .ttl = plan.ttl};
}

TakeRequest TakeOf(const Key& key, const Plan& plan) {
  return {.sku = plan.lines[0].sku,
          .quantity = plan.lines[0].quantity,
          .request_id = key.request_id(),
          .buyer = plan.buyer};
}

BasketRequest BasketOf(const Key& key, const Plan& plan) {
  return {.lines = plan.lines, .request_id = key.request_id(), .buyer = plan.buyer, .ttl = plan.ttl};
}

// What `start` has called back with.
template <typename Result, typename Start>
Result Await(Start start) {
  std::promise<Result> promise;
  std::future<Result> future = promise.get_future();
  start([&promise](Result result) { promise.set_value(std::move(result)); });
  return future.get();
}

}  // namespace

void Say(std::string_view line) {
  const std::string whole = absl::StrCat(absl::string_view(line.data(), line.size()), "\n");
  if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) _exit(4);
}

void GiveUp(std::string_view what, const absl::Status& status) {
  const std::string text = absl::StrCat(absl::string_view(what.data(), what.size()), ": ", status.ToString(), "\n");
  (void)std::fputs(text.c_str(), stderr);
  _exit(5);
}

Trader::Trader(Inventory& shop, Executor& pool, const Round& round, uint32_t thread)
    : shop_(shop),
      pool_(pool),
      round_(round),
      thread_(thread),
      random_(round.world.seed * 7919 + round.number * 256 + thread + 1) {}

Key Trader::FormerKey() {
  if (round_.number == 0 || Below(2) == 0) {
    return {.round = round_.number, .thread = thread_, .index = Below(std::max(sent_, 1u))};
  }
  // The first ones of a round were sent in all likelihood.
  return {.round = Below(round_.number), .thread = thread_, .index = Below(40)};
}

void Trader::Run() {
  // Those that were under way when the round before ended are the ones to ask about.
  if (thread_ < round_.former.size()) {
    const uint32_t end = round_.former[thread_];
    for (uint32_t i = end - std::min(end, 12u); i < end + 4; ++i) {
      const Key key{.round = round_.number - 1, .thread = thread_, .index = i};
      Trade({&key, 1});
    }
  }
  while (sent_ < round_.requests) {
    std::vector<Key> keys;
    const uint32_t what = Below(10);
    const uint32_t count = what == 0 ? 2 + Below(6) : 1;
    keys.reserve(count + 1);
    for (uint32_t i = 0; i < count; ++i) keys.push_back(what == 1 ? FormerKey() : NextKey());
    // The same id twice in one call.
    if (count > 1) keys.push_back(keys.front());
    Trade(keys);
  }
}

void Trader::Trade(std::span<const Key> keys) {
  std::vector<Item> items;
  items.reserve(keys.size());
  for (const Key& key : keys) items.push_back({.key = key, .plan = PlanOf(round_.world, key)});
  AddOwnSkus(items);
  Ask(items);
  RemoveOwnSkus(items);
  Settle(items);
}

void Trader::AddOwnSkus(std::span<const Item> items) {
  for (const Item& item : items) {
    if (!item.plan.own_sku) continue;
    const std::string sku = OwnSkuOf(item.key);
    const absl::Status added = shop_.AddSku(sku, {.stock = kOwnStock, .shards = 2});
    if (added.ok()) Say("A " + sku);
    if (!added.ok() && !absl::IsAlreadyExists(added)) GiveUp("AddSku", added);
  }
}

void Trader::RemoveOwnSkus(std::span<const Item> items) {
  for (const Item& item : items) {
    if (!item.plan.own_sku) continue;
    const std::string sku = OwnSkuOf(item.key);
    const absl::Status removed = shop_.RemoveSku(sku);
    if (removed.ok()) Say("D " + sku);
    if (!removed.ok() && !absl::IsNotFound(removed)) GiveUp("RemoveSku", removed);
  }
}

void Trader::Ask(std::span<Item> items) {
  if (items.size() > 1) return AskMany(items);
  AskOne(items[0]);
}

void Trader::AskOne(Item& item) {
  const auto& [key, plan, order] = item;
  const bool waits = Below(2) == 0;
  switch (plan.call) {
    case Plan::Call::kReserve: {
      using Answer = absl::StatusOr<Reservation>;
      const ReserveRequest request = ReserveOf(key, plan);
      Answered(item, waits ? shop_.Reserve(request)
                           : Await<Answer>([&](auto done) { shop_.ReserveAsync(request, pool_, std::move(done)); }));
      break;
    }
    case Plan::Call::kTake: {
      using Answer = absl::StatusOr<Order>;
      const TakeRequest request = TakeOf(key, plan);
      Answered(item, waits ? shop_.Take(request)
                           : Await<Answer>([&](auto done) { shop_.TakeAsync(request, pool_, std::move(done)); }));
      break;
    }
    case Plan::Call::kBasket: {
      using Answer = absl::StatusOr<BasketReservation>;
      const BasketRequest request = BasketOf(key, plan);
      Answered(item, waits ? shop_.ReserveBasket(request) : Await<Answer>([&](auto done) {
                 shop_.ReserveBasketAsync(request, pool_, std::move(done));
               }));
      break;
    }
  }
}

// Baskets come one by one.
void Trader::AskMany(std::span<Item> items) {
  std::vector<ReserveRequest> reserves;
  std::vector<TakeRequest> takes;
  for (const Item& item : items) {
    if (item.plan.call == Plan::Call::kReserve) reserves.push_back(ReserveOf(item.key, item.plan));
    if (item.plan.call == Plan::Call::kTake) takes.push_back(TakeOf(item.key, item.plan));
  }
  const std::vector<absl::StatusOr<Reservation>> reserved = shop_.ReserveMany(reserves);
  const std::vector<absl::StatusOr<Order>> taken = shop_.TakeMany(takes);
  auto next_reserved = reserved.begin();
  auto next_taken = taken.begin();
  for (Item& item : items) {
    switch (item.plan.call) {
      case Plan::Call::kReserve: Answered(item, *next_reserved++); break;
      case Plan::Call::kTake: Answered(item, *next_taken++); break;
      case Plan::Call::kBasket: AskOne(item); break;
    }
  }
}

template <typename Answer>
void Trader::Answered(Item& item, const absl::StatusOr<Answer>& answer) {
  if (!answer.ok()) {
    const Refusal refusal = RefusalOf(answer.status());
    if (refusal == Refusal::kNone || refusal == Refusal::kUnavailable || refusal == Refusal::kInvalid) {
      GiveUp(item.key.request_id(), answer.status());
    }
    const std::string_view name = RefusalName(refusal);
    Say(absl::StrCat("n ", item.key.request_id(), " ", absl::string_view(name.data(), name.size())));
    return Restock(item.plan, refusal);
  }
  if constexpr (std::is_same_v<Answer, BasketReservation>) {
    Granted(item, answer->id(), answer->expires_at(), answer->buyer(), answer->lines());
  } else {
    absl::Time expires_at = absl::InfiniteFuture();
    if constexpr (std::is_same_v<Answer, Reservation>) expires_at = answer->expires_at();
    const OrderLine line{.sku = answer->sku(), .quantity = answer->quantity()};
    Granted(item, answer->id(), expires_at, answer->buyer(), {&line, 1});
  }
}

void Trader::Granted(Item& item, OrderId order, absl::Time expires_at, const std::string& buyer,
                     std::span<const OrderLine> lines) {
  item.order = order;
  const int64_t expires_us = expires_at == absl::InfiniteFuture() ? -1 : absl::ToUnixMicros(expires_at);
  const auto write = [](std::string* out, const OrderLine& line) {
    absl::StrAppend(out, line.sku, "=", line.quantity);
  };
  Say(absl::StrCat("g ", item.key.request_id(), " ", order, " ", expires_us, " ", buyer, " ",
                   absl::StrJoin(lines, ",", write)));
}

void Trader::Restock(const Plan& plan, Refusal refusal) {
  if (refusal != Refusal::kSoldOut && (refusal != Refusal::kAllHeld || Below(8) != 0)) return;
  for (const OrderLine& line : plan.lines) {
    if (line.sku.starts_with("only-") || Below(2) == 0) continue;
    const std::string what = absl::StrCat(line.sku, " ", 1 + Below(3));
    const int64_t units = what.back() - '0';
    Say("r " + what);
    const RestockRequest request{.sku = line.sku,
                                 .quantity = units,
                                 .request_id = absl::StrCat("restock-", round_.number, "-", thread_, "-", restocks_++)};
    // With a request id it may be sent again, and counts once.
    const bool once = Below(2) == 0;
    absl::Status status = once ? shop_.Restock(request) : shop_.Restock(line.sku, units);
    if (status.ok() && once && Below(2) == 0) status = shop_.Restock(request);
    if (!status.ok() && RefusalOf(status) != Refusal::kRequestForgotten) GiveUp("Restock", status);
    Say("R " + what);
  }
}

void Trader::Settle(std::span<const Item> items) {
  std::vector<OrderId> commits;
  std::vector<OrderId> cancels;
  std::vector<const Item*> committed;
  std::vector<const Item*> cancelled;
  for (const Item& item : items) {
    if (item.order == 0 || item.plan.call == Plan::Call::kTake) continue;
    if (item.plan.ttl <= kShortTtl && Below(2) == 0) Extend(item);
    switch (item.plan.fate) {
      case Plan::Fate::kLeave: break;
      case Plan::Fate::kRace: Race(item); break;
      case Plan::Fate::kCommit:
        commits.push_back(item.order);
        committed.push_back(&item);
        break;
      case Plan::Fate::kCancel:
        cancels.push_back(item.order);
        cancelled.push_back(&item);
        break;
    }
  }
  const bool waits = Below(2) == 0;
  const auto all = [&](char what, std::span<const OrderId> ids, std::span<const Item* const> of, auto one, auto many,
                       auto async) {
    std::vector<absl::Status> results;
    if (ids.size() == 1) {
      results.push_back(waits ? (shop_.*one)(ids[0]) : Await<absl::Status>([&](auto done) {
        (shop_.*async)(ids[0], pool_, std::move(done), {});
      }));
    } else {
      results = (shop_.*many)(ids);
    }
    for (size_t i = 0; i < ids.size(); ++i) Settled(what, *of[i], results[i]);
  };
  all('c', commits, committed, &Inventory::Commit, &Inventory::CommitMany, &Inventory::CommitAsync);
  all('x', cancels, cancelled, &Inventory::Cancel, &Inventory::CancelMany, &Inventory::CancelAsync);
  for (const Item& item : items) {
    if (item.order != 0 && item.plan.returns_a_unit() && Below(2) == 0) Return(item);
  }
  if (Below(8) != 0) return;
  // What has ended stays as it is: a second commit and a second cancel are OK, the other ones are not.
  for (const Item* const item : committed) {
    Settled('c', *item, shop_.Commit(item->order));
    Settled('x', *item, shop_.Cancel(item->order));
  }
  for (const Item* const item : cancelled) {
    Settled('x', *item, shop_.Cancel(item->order));
    Settled('c', *item, shop_.Commit(item->order));
  }
}

// It may have ended before.
void Trader::Extend(const Item& item) {
  const absl::Status extended = shop_.Extend({.order = item.order, .ttl = 2 * kShortTtl}).status();
  if (extended.ok() || absl::IsFailedPrecondition(extended) || absl::IsNotFound(extended)) return;
  GiveUp(item.key.request_id(), extended);
}

// Perhaps once more, perhaps in a later round. It may not be sold.
void Trader::Return(const Item& item) {
  const ReturnRequest request{.order = item.order,
                              .lines = {{item.plan.lines[0].sku, 1}},
                              .request_id = "return-" + item.key.request_id(),
                              .disposition = item.plan.writes_off ? ReturnRequest::Disposition::kWriteOff
                                                                  : ReturnRequest::Disposition::kToStock};
  Say(absl::StrCat("b ", item.key.request_id(), " try"));
  const absl::Status returned = shop_.Return(request).status();
  if (returned.ok()) return Say(absl::StrCat("b ", item.key.request_id(), " ok"));
  if (absl::IsFailedPrecondition(returned) || absl::IsNotFound(returned)) return;
  if (RefusalOf(returned) != Refusal::kRequestForgotten) GiveUp(item.key.request_id(), returned);
}

void Trader::Race(const Item& item) {
  std::promise<absl::Status> committed;
  pool_.Schedule([&] { committed.set_value(shop_.Commit(item.order)); });
  const absl::Status cancelled = shop_.Cancel(item.order);
  Settled('c', item, committed.get_future().get());
  Settled('x', item, cancelled);
}

void Trader::Settled(char what, const Item& item, const absl::Status& status) {
  const char* answer = "ok";
  if (absl::IsFailedPrecondition(status)) {
    answer = "refused";
  } else if (absl::IsNotFound(status)) {
    answer = "forgotten";
  } else if (!status.ok()) {
    GiveUp(item.key.request_id(), status);
  }
  Say(absl::StrCat(std::string(1, what), " ", item.key.request_id(), " ", answer));
}

}  // namespace stockade::testing
