#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "fleet_sql.h"
#include "fleet_workers.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Orders that expire, or are forgotten, in one transaction.
constexpr size_t kUpkeepOrders = 256;
// Large orders of which one packet may end as many as fit.
constexpr size_t kLargeOrders = 64;
// SKUs that one query looks at because their units wait to be moved.
constexpr size_t kDraining = 1000;
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

// Between two readings of the stock; longer if they take long, so that the server is busy with them for 2 % of the time
// at most.
constexpr absl::Duration kStockInterval = absl::Seconds(10);
constexpr int kShareOfTime = 50;
// Rows of buyers that one reading checks. The next one goes on from there.
constexpr size_t kBuyersPage = 10'000;

}  // namespace

absl::Duration FleetJanitor::Run() {
  if (shared_.clock.Now() >= next_sign_ && lane_.SignOfLife().status.ok()) {
    next_sign_ = shared_.clock.Now() + std::min(shared_.options.retention / 4, kSignOfRetention);
  }
  const bool is_new_watch = shared_.clock.Now() >= due_.watch_until;
  bool is_more = false;
  const bool goes_on = (!is_new_watch || KeepWatch()) && (!due_.small.empty() || FindDue()) && EndDue();
  if (!goes_on) {
    shared_.queues.SetWatching(false);
    shared_.queues.WakeUp();
    return kUpkeepInterval;
  }
  if (is_new_watch) Tidy(is_more);  // What fails of it is done the next time.
  if (is_more) due_.watch_until = Instant::InfinitePast();
  if (is_more || !due_.small.empty() || due_.is_searching()) return absl::ZeroDuration();
  if (!due_.large.empty()) return shared_.queues.large_ends_run() ? kLargePause : absl::ZeroDuration();
  return std::clamp(absl::Microseconds(due_.next - due_.now), absl::Milliseconds(1), kUpkeepInterval);
}

bool FleetJanitor::KeepWatch() {
  const Instant sent = shared_.clock.Now();
  std::optional<bool> is_ours;
  if (!ClaimUpkeep(lane_, kJanitorUs, is_ours)) return false;
  if (!is_ours.has_value() && sent >= missing_logged_ + kLogInterval) {
    missing_logged_ = sent;
    Log(LogSeverity::kError, Concat("Inventory '", shared_.options.name, "': the ledger is damaged: ",
                                    shared_.options.fleet, "_fleet has no row, so that no reservation expires"));
  }
  if (is_ours.value_or(false)) {
    due_.watch_until = sent + kSignOfLife;
    shared_.stock.ExportUntil(sent + absl::Microseconds(kJanitorUs));
    shared_.queues.SetWatching(true);
    return true;
  }
  due_ = {};
  shared_.stock.Clear();
  return false;
}

bool FleetJanitor::FindDue() {
  const bool is_first = !due_.is_searching();
  if (is_first) {
    // Entries of ended orders stay in the index for a while. Only now and then it is read from its beginning.
    due_.is_whole = due_.now < due_.swept_at || due_.now - due_.swept_at > kSweepUs;
    due_.from = due_.is_whole ? 0 : due_.swept_at - kSweepUs;
  }
  FleetDuePage page;
  if (!ReadDue(lane_, due_.from, due_.found, kPage, due_.oldest.has_value() ? due_.oldest->second : 0, page)) {
    return false;
  }
  if (!page.oldest_is_held) due_.oldest.reset();
  due_.now = FleetClamp(page.now);
  due_.next = FleetClamp(page.next.value_or(kMaxUnits));
  for (const auto& [id, at, is_small] : page.rows) {
    if (is_small) {
      due_.small.emplace_back(at, id);
    } else if (due_.large.size() < kMostLarge && std::pair(at, id) > due_.large_tried) {
      due_.large.emplace(at, id);
    }
  }
  if (is_first) {
    due_.began = due_.now;
    std::optional<Order> oldest;
    if (!page.rows.empty()) oldest.emplace(std::get<1>(page.rows.front()), std::get<0>(page.rows.front()));
    if (due_.is_whole) {
      due_.oldest = oldest;
    } else if (due_.oldest.has_value() && due_.oldest->first < due_.from) {
      oldest = due_.oldest;
    }
    NoteOverdue(oldest);
  }
  if (page.rows.size() < kPage) {
    if (due_.is_whole) due_.swept_at = due_.began;
    due_.found = {};
  } else {
    due_.found = {std::get<1>(page.rows.back()), std::get<0>(page.rows.back())};
  }
  return true;
}

void FleetJanitor::NoteOverdue(std::optional<Order> oldest) {
  const Instant now = shared_.clock.Now();
  const absl::Duration overdue =
      oldest.has_value() ? absl::Microseconds(due_.now - FleetClamp(oldest->first)) : absl::ZeroDuration();
  if (overdue > kOverdueLogged && now >= due_.logged + kLogInterval) {
    due_.logged = now;
    Log(LogSeverity::kWarning,
        Concat("Inventory '", shared_.options.name, "': reservations do not expire in time: order ", oldest->second,
               " was due ", absl::FormatDuration(overdue), " ago"));
  }
  shared_.stock.SetOverdue(oldest.has_value() ? now - overdue : Instant::InfiniteFuture());
}

FleetEnds FleetJanitor::Expiries(std::span<const OrderId> ids) const {
  FleetEnds expiring;
  for (const OrderId id : ids) {
    auto call = std::make_unique<FleetEndCall>();
    call->start = shared_.clock.Now();
    call->id = id;
    call->to = OrderState::kExpired;
    call->max_surprises = FleetCall::kSurprisesInCompany + 1;  // It is due in the next search, too.
    call->done = [](const absl::Status&) {};
    expiring.push_back(std::move(call));
  }
  return expiring;
}

bool FleetJanitor::EndDue() {
  std::vector<OrderId> ids;
  while (!due_.small.empty() && ids.size() < kUpkeepOrders) {
    ids.push_back(due_.small.front().second);
    due_.small.pop_front();
  }
  if (!ids.empty() && !ender_.Serve(Expiries(ids))) return false;
  if (!shared_.queues.BeginLargeEndsOfUpkeep(!due_.large.empty())) {
    shared_.queues.WakeUp();
    return true;
  }
  const bool is_usable = EndLargeDue();
  shared_.queues.EndLargeEnds();
  return is_usable;
}

bool FleetJanitor::EndLargeDue() {
  std::vector<OrderId> ids;
  for (auto order = due_.large.begin(); order != due_.large.end() && ids.size() < kLargeOrders; ++order) {
    ids.push_back(order->second);
  }
  FleetEnds calls = Expiries(ids);
  for (auto& call : calls) call->is_large = true;
  if (!ender_.CountLines(calls)) return false;
  const FleetEnds later = SplitOff(calls, lane_.most_lines());
  const OrderId first_later = later.empty() ? 0 : later.front()->id;
  for (size_t i = 0; i < ids.size() && due_.large.begin()->second != first_later; ++i) {
    due_.large_tried = *due_.large.begin();
    due_.large.erase(due_.large.begin());
  }
  if (due_.large.empty()) due_.large_tried = {};
  return calls.empty() || ender_.EndLarge(std::move(calls));
}

void FleetJanitor::Tidy(bool& is_more) {
  // Units in limbo whose process has ended are moved by this one.
  FleetSkuRows draining;
  if (!shared_.ReadSkus(lane_, DrainingSkus(lane_.tables(), kDraining), draining)) return;
  if (shared_.stock.enabled() && shared_.clock.Now() >= next_reading_) {
    const Instant sent = shared_.clock.Now();
    const bool was_read = ReadStock();
    const Instant now = shared_.clock.Now();
    next_reading_ = now + std::max(kStockInterval, kShareOfTime * (now - sent));
    if (!was_read) return;
  }
  // As long as any process that is alive has promised it. One counts as alive for its retention after its last sign.
  std::optional<int64_t> retention;
  if (!ReadRetention(lane_, retention)) return;
  const int64_t longest = std::max(FleetClamp(retention.value_or(0)), FleetMicros(shared_.options.retention));
  if (longest >= kMaxUnits) return;
  // As FindDue() has it, of the entries of ended orders.
  const bool is_whole = due_.now < due_.forgot_at || due_.now - due_.forgot_at > kSweepUs;
  const int64_t before = due_.now - longest;
  if (!Forget(is_whole ? 0 : before - kSweepUs, before, is_more)) return;
  if (is_whole && !is_more) due_.forgot_at = due_.now;
}

bool FleetJanitor::ReadStock() {
  FleetTotals totals;
  if (!ReadTotals(lane_, checked_, kBuyersPage, totals)) return false;
  over_limit_ += totals.over_limit;
  const auto [available, held, sold, oversold] = totals.sums;
  FleetStock::Figures figures{.all = {.available = available, .held = held, .sold = sold},
                              .oversold = oversold,
                              .buyers_over_limit = std::max(over_limit_, over_limit_of_all_)};
  if (totals.last.empty()) over_limit_of_all_ = std::exchange(over_limit_, 0);
  checked_ = {};
  if (!totals.last.empty()) checked_ = {std::get<0>(totals.last.front()), std::get<1>(totals.last.front())};
  const auto named = static_cast<size_t>(shared_.options.sku_metrics);
  FleetSkuRows rows;
  if (named > 0 && !shared_.ReadSkus(lane_, SkusAfter(lane_.tables(), 0, named), rows)) return false;
  for (const auto& [id, row] : rows) {
    figures.skus[row.name] = {.available = row.units, .held = row.held + row.latch.limbo, .sold = row.sold};
  }
  shared_.stock.Set(std::move(figures));
  return true;
}

bool FleetJanitor::Forget(int64_t from, int64_t before, bool& is_more) {
  FleetOldOrders old;
  if (!ReadOld(lane_, from, before, due_.forgets, old)) return false;
  if (old.empty()) return true;
  const size_t found = old.size();
  size_t lines = 0;
  std::erase_if(old, [&](const auto& order) {
    lines += std::max<size_t>(std::get<1>(order), 1);
    return lines > kMaxLines && &order != &old.front();
  });
  // Counting lines takes long, so that not many more are counted than fit.
  const bool all_fit = old.size() == found;
  is_more = !all_fit || found >= due_.forgets;
  due_.forgets = std::min(all_fit ? 2 * due_.forgets : old.size(), kUpkeepOrders);
  std::vector<OrderId> ids;
  for (const auto& [id, count] : old) ids.push_back(id);
  FleetOrderRows orders;
  int64_t now = 0;
  if (!ReadOrderRows(lane_, ids, orders, now)) return false;
  const FleetPacket packet = ForgetPacket(orders);
  if (packet.empty()) {
    is_more = false;
    return true;
  }
  // If it is not done, the next search begins where this one did, or it would not find them for a minute.
  const bool is_done = shared_.queues.RunUntilKnown(lane_, packet).kind == FleetOutcome::Kind::kDone;
  is_more &= is_done;
  return is_done;
}

}  // namespace stockade::inventory_internal
