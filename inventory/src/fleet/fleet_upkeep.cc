// What lanes do without being asked: orders that are due expire, and those that ended long ago are forgotten.

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fleet_core.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Orders that expire, or are forgotten, in one transaction.
constexpr size_t kUpkeepOrders = 256;
// Large orders of which one packet may end as many as fit.
constexpr size_t kLargeOrders = 64;
// SKUs that one query looks at because their units wait to be moved.
constexpr int kDraining = 1000;
// Orders that one query finds, and large ones that are remembered.
constexpr size_t kPage = 4096;
constexpr size_t kMostLarge = 100'000;
// Between two times, and while another lane ends large orders.
constexpr absl::Duration kUpkeepInterval = absl::Seconds(1);
constexpr absl::Duration kLargePause = absl::Milliseconds(20);
// The process that does the upkeep keeps it for so long without a sign of life; in the database's time. It gives one
// more often than that.
constexpr int64_t kJanitorUs = 3'000'000;
constexpr absl::Duration kSignOfLife = absl::Milliseconds(500);
// A process without orders says so often that it is alive, or four times in its retention.
constexpr absl::Duration kSignOfRetention = absl::Hours(1);

// Orders whose time came longer ago than this are looked for once in this time.
constexpr int64_t kSweepUs = 60'000'000;

// A reservation that is due for longer is logged, not more often than that.
constexpr absl::Duration kOverdueLogged = absl::Seconds(10);
constexpr absl::Duration kLogInterval = absl::Minutes(1);

}  // namespace

absl::Duration FleetCore::Upkeep(Lane& lane) {
  Due& due = lane.due;
  if (clock_.Now() >= lane.next_sign && lane.writer.SignOfLife().status.ok()) {
    lane.next_sign = clock_.Now() + std::min(options_.retention / 4, kSignOfRetention);
  }
  const bool is_new_watch = clock_.Now() >= due.watch_until;
  bool is_more = false;
  const bool goes_on = (!is_new_watch || KeepWatch(lane)) && (!due.small.empty() || FindDue(lane)) && EndDue(lane);
  if (goes_on && is_new_watch) Tidy(lane, is_more);  // What fails of it is done the next time.
  const MutexLock lock(mutex_);
  if (!goes_on) {
    watching_ = false;
    WakeUp();
    return kUpkeepInterval;
  }
  if (is_more) due.watch_until = Instant::InfinitePast();
  if (is_more || !due.small.empty() || due.is_searching()) return absl::ZeroDuration();
  if (!due.large.empty()) return large_ends_run_ ? kLargePause : absl::ZeroDuration();
  return std::clamp(absl::Microseconds(due.next - due.now), absl::Milliseconds(1), kUpkeepInterval);
}

bool FleetCore::KeepWatch(Lane& lane) {
  if (absl::Status ready = lane.writer.Prepare(); !ready.ok()) {
    NoteHealth(ready);
    return false;
  }
  // One process does it for all, as long as it lives. A clock that was set back ends that, too.
  const std::string me = Concat(lane.writer.nonce());
  const Instant sent = clock_.Now();
  const MySqlReply reply =
      lane.writer.Read(Concat("UPDATE ", ledger_.tables.fleet, " SET janitor=", me, ",janitor_until=", kFleetNow, "+",
                              kJanitorUs, " WHERE one=1 AND (janitor=", me, " OR janitor_until<", kFleetNow,
                              " OR janitor_until>", kFleetNow, "+", 2 * kJanitorUs, ")"));
  NoteHealth(reply.status);  // Processes without calls have no other sign of it.
  if (!reply.status.ok()) return false;
  if (reply.rows_matched.front() == 1) {
    lane.due.watch_until = sent + kSignOfLife;
    stock_.ExportUntil(sent + absl::Microseconds(kJanitorUs));
    const MutexLock lock(mutex_);
    watching_ = true;
    watch_end_ = sent + absl::Microseconds(kJanitorUs);
    return true;
  }
  lane.due = {};
  stock_.Clear();
  NoteOverdue(lane, std::nullopt);
  return false;
}

bool FleetCore::FindDue(Lane& lane) {
  Due& due = lane.due;
  const bool is_first = !due.is_searching();
  if (is_first) {
    // Entries of ended orders stay in the index for a while. Only now and then it is read from its beginning.
    due.is_whole = due.now < due.swept_at || due.now - due.swept_at > kSweepUs;
    due.from = due.is_whole ? 0 : due.swept_at - kSweepUs;
  }
  std::vector<std::tuple<OrderId, int64_t, bool>> rows;
  std::optional<int64_t> next;
  bool oldest_is_held = false;
  const std::string orders = Concat(ledger_.tables.orders, " o FORCE INDEX (upkeep) WHERE o.state=0 AND o.at");
  const MySqlReply reply = lane.writer.Read(
      Concat("SET @due=", kFleetNow, ";SELECT o.order_id,o.at,", IsSmallOrder(), " FROM ", orders,
             ">=", std::max(due.from, due.found.first), " AND o.at<=@due AND (o.at>", due.found.first,
             " OR o.order_id>", due.found.second, ") ORDER BY o.at,o.order_id LIMIT ", kPage, ";SELECT MIN(o.at) FROM ",
             orders, ">@due;SELECT COUNT(*) FROM ", ledger_.tables.orders,
             " WHERE state=0 AND order_id=", due.oldest.has_value() ? due.oldest->second : 0, ";SELECT @due"),
      MySqlInto(rows, next, oldest_is_held, due.now));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  if (!oldest_is_held) due.oldest.reset();
  due.now = FleetClamp(due.now);
  due.next = FleetClamp(next.value_or(kMaxUnits));
  for (const auto& [id, at, is_small] : rows) {
    if (is_small) {
      due.small.emplace_back(at, id);
    } else if (due.large.size() < kMostLarge && std::pair(at, id) > due.large_tried) {
      due.large.emplace(at, id);
    }
  }
  if (is_first) {
    due.began = due.now;
    std::optional<std::pair<int64_t, OrderId>> oldest;
    if (!rows.empty()) oldest.emplace(std::get<1>(rows.front()), std::get<0>(rows.front()));
    if (due.is_whole) {
      due.oldest = oldest;
    } else if (due.oldest.has_value() && due.oldest->first < due.from) {
      oldest = due.oldest;
    }
    NoteOverdue(lane, oldest);
  }
  if (rows.size() < kPage) {
    if (due.is_whole) due.swept_at = due.began;
    due.found = {};
  } else {
    due.found = {std::get<1>(rows.back()), std::get<0>(rows.back())};
  }
  return true;
}

void FleetCore::NoteOverdue(Lane& lane, std::optional<std::pair<int64_t, OrderId>> oldest) {
  const Instant now = clock_.Now();
  const absl::Duration overdue =
      oldest.has_value() ? absl::Microseconds(lane.due.now - FleetClamp(oldest->first)) : absl::ZeroDuration();
  if (overdue > kOverdueLogged && now >= lane.due.logged + kLogInterval) {
    lane.due.logged = now;
    Log(LogSeverity::kWarning, Concat("Inventory '", options_.name, "': reservations do not expire in time: order ",
                                      oldest->second, " was due ", absl::FormatDuration(overdue), " ago"));
  }
  const MutexLock lock(mutex_);
  overdue_since_ = oldest.has_value() ? now - overdue : Instant::InfiniteFuture();
}

double FleetCore::OverdueSeconds() const {
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  return now >= watch_end_ ? 0.0 : std::max(absl::ToDoubleSeconds(now - overdue_since_), 0.0);
}

FleetEnds FleetCore::Expiries(std::span<const OrderId> ids) {
  FleetEnds expiring;
  for (const OrderId id : ids) {
    auto call = std::make_unique<FleetEndCall>();
    call->start = clock_.Now();
    call->id = id;
    call->to = OrderState::kExpired;
    call->max_surprises = FleetCall::kSurprisesInCompany + 1;  // It is due in the next search, too.
    call->done = [](const absl::Status&) {};
    expiring.push_back(std::move(call));
  }
  return expiring;
}

bool FleetCore::EndDue(Lane& lane) {
  Due& due = lane.due;
  std::vector<OrderId> ids;
  while (!due.small.empty() && ids.size() < kUpkeepOrders) {
    ids.push_back(due.small.front().second);
    due.small.pop_front();
  }
  if (!ids.empty() && !ServeEnds(lane, Expiries(ids))) return false;
  {
    const MutexLock lock(mutex_);
    if (queues_.ends.empty()) small_ends_first_ = false;
    large_are_due_ = !due.large.empty();
    if (due.large.empty() || !BeginLargeEnds(/*by_upkeep=*/true)) {
      WakeUp();
      return true;
    }
  }
  const bool is_usable = EndLargeDue(lane);
  const MutexLock lock(mutex_);
  EndLargeEnds();
  return is_usable;
}

bool FleetCore::EndLargeDue(Lane& lane) {
  std::set<std::pair<int64_t, OrderId>>& large = lane.due.large;
  std::vector<OrderId> ids;
  for (auto order = large.begin(); order != large.end() && ids.size() < kLargeOrders; ++order) {
    ids.push_back(order->second);
  }
  FleetEnds calls = Expiries(ids);
  if (!CountLines(lane, calls)) return false;
  const FleetEnds later = SplitOff(lane, calls);
  const OrderId first_later = later.empty() ? 0 : later.front()->id;
  for (size_t i = 0; i < ids.size() && large.begin()->second != first_later; ++i) {
    lane.due.large_tried = *large.begin();
    large.erase(large.begin());
  }
  if (large.empty()) lane.due.large_tried = {};
  return calls.empty() || EndLarge(lane, std::move(calls));
}

void FleetCore::Tidy(Lane& lane, bool& is_more) {
  // Units in limbo whose process has ended are moved by this one.
  FleetSkuRows draining;
  if (!ReadSkus(lane.writer,
                Concat("s.sku_id IN (SELECT sku_id FROM (SELECT sku_id FROM ", ledger_.tables.skus,
                       " WHERE mode=2 LIMIT ", kDraining, ") some)"),
                draining)) {
    return;
  }
  if (!ReadStock(lane)) return;
  // As long as any process that is alive has promised it. One counts as alive for its retention after its last sign.
  std::optional<int64_t> retention;
  const MySqlReply reply = lane.writer.Read(Concat("SELECT MAX(retention_us) FROM ", ledger_.tables.lanes,
                                                   " WHERE GREATEST(seen_at,created_at)>=", kFleetNow, "-retention_us"),
                                            MySqlInto(retention));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return;
  const int64_t own =
      options_.retention == absl::InfiniteDuration() ? kNever : absl::ToInt64Microseconds(options_.retention);
  const int64_t longest = std::max(FleetClamp(retention.value_or(0)), own);
  if (longest >= kMaxUnits) return;
  // As FindDue() has it, of the entries of ended orders.
  const bool is_whole = lane.due.now < lane.due.forgot_at || lane.due.now - lane.due.forgot_at > kSweepUs;
  const int64_t before = lane.due.now - longest;
  if (!Forget(lane, is_whole ? 0 : before - kSweepUs, before, is_more)) return;
  if (is_whole && !is_more) lane.due.forgot_at = lane.due.now;
}

bool FleetCore::Forget(Lane& lane, int64_t from, int64_t before, bool& is_more) {
  // Damaged orders, and those of a SKU whose row is missing, stay as they are: their units cannot be counted as
  // forgotten. COUNT(*), because a server may turn EXISTS into a join and begin with another table.
  const std::string units = Concat("quantity BETWEEN 1 AND ", kMaxUnits);
  const std::string line_count =
      Concat("(SELECT COUNT(*) FROM ", ledger_.tables.order_lines, " l WHERE l.order_id=o.order_id)");
  const std::string of_skus = Concat(
      " AND kind BETWEEN 0 AND 3 AND IF(sku_id=0,", line_count, " BETWEEN 1 AND ", kMaxBasketLines, ",", units,
      " AND (SELECT COUNT(*) FROM ", ledger_.tables.skus, " s WHERE s.sku_id=o.sku_id)=1) AND (SELECT COUNT(*) FROM ",
      ledger_.tables.order_lines, " l LEFT JOIN ", ledger_.tables.skus,
      " s ON s.sku_id=l.sku_id WHERE l.order_id=o.order_id AND (s.sku_id IS NULL OR NOT l.", units, "))=0");
  const auto of_state = [&](OrderState state) {
    return Concat("(SELECT order_id,", line_count, " FROM ", ledger_.tables.orders,
                  " o FORCE INDEX (upkeep) WHERE state=", static_cast<int>(state), " AND at>=", from, " AND at<",
                  before, of_skus, " ORDER BY at LIMIT ", lane.due.forgets, ")");
  };
  std::vector<std::tuple<OrderId, uint64_t>> old;
  const MySqlReply reply =
      lane.writer.Read(Concat(of_state(OrderState::kSold), " UNION ALL ", of_state(OrderState::kCancelled),
                              " UNION ALL ", of_state(OrderState::kExpired)),
                       MySqlInto(old));
  NoteHealth(reply.status);
  if (!reply.status.ok()) return false;
  if (old.empty()) return true;
  const size_t found = old.size();
  size_t lines = 0;
  std::erase_if(old, [&](const auto& order) {
    lines += std::max<size_t>(std::get<1>(order), 1);
    return lines > kMaxLines && &order != &old.front();
  });
  // Counting lines takes long, so that not many more are counted than fit.
  const bool all_fit = old.size() == found;
  is_more = !all_fit || found >= lane.due.forgets;
  lane.due.forgets = std::min(all_fit ? 2 * lane.due.forgets : old.size(), kUpkeepOrders);
  const std::string old_ids =
      absl::StrJoin(old, ",", [](std::string* out, const auto& order) { absl::StrAppend(out, std::get<0>(order)); });
  FleetOrderRows orders;
  int64_t now = 0;
  if (!ReadOrders(lane.writer, Concat("o.order_id IN (", old_ids, ")"), orders, now)) return false;
  std::vector<OrderId> ids;
  std::map<uint64_t, int64_t> sold;
  for (const auto& [id, order] : orders) {
    if (!order.damage.empty()) continue;
    ids.push_back(id);
    if (order.state != OrderState::kSold || order.kind == OrderKind::kRestock) continue;
    for (const auto& [sku, quantity] : order.lines) sold[sku] = FleetSum(sold[sku], quantity);
  }
  if (ids.empty()) {
    is_more = false;
    return true;
  }
  FleetPacket packet;
  for (const auto& [sku, quantity] : sold) {
    packet.AddGuarded(
        Concat("UPDATE ", ledger_.tables.skus, " SET sold_forgotten=sold_forgotten+", quantity, " WHERE sku_id=", sku),
        1);
  }
  const std::string in_ids = Concat(" WHERE order_id IN (", absl::StrJoin(ids, ","), ")");
  packet.AddGuarded(Concat("DELETE FROM ", ledger_.tables.orders, in_ids, " AND state<>0"),
                    static_cast<int64_t>(ids.size()));
  packet.Add(Concat("DELETE FROM ", ledger_.tables.order_lines, in_ids));
  // If it is not done, the next search begins where this one did, or it would not find them for a minute.
  const bool is_done = RunUntilKnown(lane.writer, packet).kind == FleetOutcome::Kind::kDone;
  is_more &= is_done;
  return is_done;
}

}  // namespace stockade::inventory_internal
