// Small concurrent histories of three processes that refuse by leases, around zero units, each checked: is there an
// order of its calls that respects real time and in which every answer is right? No refusal is false, and no repeat of
// a request that took units is refused. Processes end and connections break meanwhile. The same checks find each of the
// rules that FleetDefect can leave out.

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fleet_pause.h"
#include "fleet_rules.h"
#include "inventory/fleet/fleet_caller.h"
#include "inventory/fleet/fleet_history.h"
#include "inventory/fleet/fleet_test.h"
#include "stockade/base/clock.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/await.h"
#include "support/exported.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;
using inventory_internal::FleetDefect;
using inventory_internal::FleetPause;

constexpr size_t kProcesses = 3;
constexpr size_t kOperationsEach = 7;
constexpr size_t kOperations = kProcesses * kOperationsEach;
static_assert(kOperations <= FleetState::kRequests);
// Histories at the same time, so that the processes have something to do while some of them wait for leases.
constexpr int kGroups = 16;
// Histories over the same two SKUs, one after the other, so that threads of processes are late by a whole epoch.
constexpr int kHistoriesOfSkus = 8;

// Which threads of the processes wait at times, and for how long.
struct Delays {
  std::vector<FleetPause> at = {};
  uint32_t one_in = 1;
  uint32_t longest_ms = 0;
};

using enum FleetOperation::Kind;

struct HistorySettings {
  int64_t histories = INT64_MAX;
  // More histories follow until leases have refused more requests than this: on a busy machine many leases end before a
  // request meets them.
  int64_t refusals_by_lease = -1;
  FleetDefect defect = FleetDefect::kNone;
  std::array<absl::Duration, kProcesses> leases = {absl::Milliseconds(20), absl::Milliseconds(30),
                                                   absl::Milliseconds(40)};
  Delays delays = {};
  // Of the operations, as often as they are to be.
  std::vector<FleetOperation::Kind> kinds = {
      kTake,   kTake,   kTake,   kTake,   kTake,    kReserve, kReserve, kReserve, kReserve, kBasket,   kCommit,
      kCancel, kCancel, kCancel, kCancel, kRestock, kRestock, kRead,    kRead,    kReshard, kTakeBack, kTakeBack};
  // One in so many cancels is followed by the end of a process or of a connection; 0: none.
  uint32_t kills = 0;
  std::string dropped_constraint = {};  // Of the tables: "stock latched".
};

struct HistoryResult {
  int64_t histories = 0;
  int64_t calls = 0;
  int64_t refusals = 0;
  int64_t refusals_by_lease = 0;
  int64_t repeats = 0;  // Of requests that had taken units.
  int64_t expiries = 0;
  int64_t limbo_moves = 0;
  int64_t kills = 0;
  double seconds = 0;
  std::string unexplained = {};  // The first history that no order explains.
  std::string stuck = {};        // The first SKU with units in limbo that nobody moves.

  bool found() const { return !unexplained.empty() || !stuck.empty(); }
  void Print(std::string_view name) const {
    std::cout << name << ": " << histories << " histories, " << calls << " calls, " << refusals << " refusals, "
              << refusals_by_lease << " by leases, " << repeats << " repeats, " << expiries << " expiries, "
              << limbo_moves << " limbo moves, " << kills << " kills, " << seconds << " s\n";
  }
};

// What threads of the processes do at a FleetPause. Delays widen races: nothing waits for them.
class DelayHook {
 public:
  explicit DelayHook(const Delays& delays) {
    for (const FleetPause place : delays.at) places_ |= 1U << static_cast<unsigned>(place);
    one_in_ = delays.one_in;
    longest_ms_ = delays.longest_ms;
#ifdef STOCKADE_CRASH_POINTS
    inventory_internal::fleet_pause = &Wait;
#endif
  }
  ~DelayHook() {
#ifdef STOCKADE_CRASH_POINTS
    inventory_internal::fleet_pause = nullptr;
#endif
    places_ = 0;
  }
  DelayHook(const DelayHook&) = delete;
  DelayHook& operator=(const DelayHook&) = delete;

 private:
  static void Wait(FleetPause place) {
    if ((places_ >> static_cast<unsigned>(place) & 1) == 0) return;
    std::mt19937_64 random(draws_.fetch_add(1));
    if (random() % one_in_ == 0) poll(nullptr, 0, static_cast<int>(random() % (longest_ms_ + 1)));
  }

  static inline std::atomic<uint32_t> places_ = 0;
  static inline std::atomic<uint32_t> one_in_ = 1;
  static inline std::atomic<uint32_t> longest_ms_ = 0;
  static inline std::atomic<uint64_t> draws_ = 0;
};

class FleetRefusalHistoriesTest : public FleetTest {
 protected:
  // The calls of a group's threads, and what they are made on.
  struct Group {
    std::barrier<> meeting{kProcesses};
    std::mt19937_64 random;
    std::atomic<uint64_t> tick = 0;
    bool over = false;
    int64_t histories = 0;

    std::array<std::string, 2> skus = {};
    std::array<int64_t, 2> held_before = {};  // By histories before.
    FleetState first = {};
    std::string ids = {};
    std::array<FleetOperation, kOperations> plan = {};
    std::array<int, kOperations> waits_ms = {};  // Before the operation.
    std::array<bool, kOperations> made = {};
    std::array<OrderId, FleetState::kRequests> short_orders = {};
  };

  HistoryResult Run(const HistorySettings& settings) {
    settings_ = settings;
    result_ = {};
    over_ = false;
    started_ = 0;

#ifdef STOCKADE_CRASH_POINTS
    inventory_internal::fleet_defect = settings_.defect;
#endif
    const Instant start = Clock::System()->Now();
    const DelayHook hook(settings_.delays);
    give_up_ = start + absl::Minutes(20);
    for (size_t i = 0; i < kProcesses; ++i) processes_[i] = ConnectProcess(i);
    DropConstraint();
    std::vector<std::unique_ptr<Group>> groups;
    std::vector<std::thread> threads;
    for (int g = 0; g < kGroups; ++g) {
      groups.push_back(std::make_unique<Group>());
      Group& group = *groups.back();
      group.random.seed(static_cast<uint64_t>(g));
      for (size_t process = 0; process < kProcesses; ++process) {
        threads.emplace_back([this, &group, g, process] { RunThread(group, g, process); });
      }
    }
    for (std::thread& thread : threads) thread.join();
    for (auto& process : processes_) process.reset();
    result_.seconds = absl::ToDoubleSeconds(Clock::System()->Now() - start);
    result_.refusals_by_lease = RefusalsByLease();
    for (size_t i = 0; i < kProcesses; ++i) result_.limbo_moves += Exported(i, "limbo_moves_total", "");
#ifdef STOCKADE_CRASH_POINTS
    inventory_internal::fleet_defect = FleetDefect::kNone;
#endif
    return result_;
  }

 private:
  static std::string NameOf(size_t process) { return Concat("process", process); }
  int64_t Exported(size_t process, std::string_view metric, std::string_view label) const {
    return static_cast<int64_t>(testing::Exported(
        *registry_, Concat("stockade_inventory_fleet_", metric, "{inventory=\"", NameOf(process), "\"", label, "}")));
  }
  int64_t RefusalsByLease() const {
    int64_t refusals = 0;
    for (size_t i = 0; i < kProcesses; ++i) refusals += Exported(i, "refusals_total", ",by=\"lease\"");
    return refusals;
  }
  std::shared_ptr<Inventory> ConnectProcess(size_t process) {
    FleetInventoryOptions options = Options();
    options.name = NameOf(process);
    options.refusal_lease = settings_.leases[process];
    options.metrics = registry_.get();
    return Connect(std::move(options));
  }
  std::shared_ptr<Inventory> Process(size_t process) {
    const std::lock_guard lock(mutex_);
    return processes_[process];
  }
  void DropConstraint() {
    const std::string& which = settings_.dropped_constraint;
    if (which.empty()) return;
    const size_t space = which.find(' ');
    server().Query(Concat("ALTER TABLE ", Table(which.substr(0, space)), " DROP CONSTRAINT ", fleet(), "_",
                          which.substr(space + 1)));
    tables_are_damaged_ = true;
  }

  // A process ends, and another one takes its place; all connections end; or all lanes are closed by their fences. The
  // calls in progress get their answers.
  void Kill(size_t process, uint64_t how) {
    const std::lock_guard kill_lock(kill_mutex_);
    std::shared_ptr<Inventory> ended;
    if (how == 0) {
      server().KillConnections();
    } else if (how == 1) {
      server().Query(Concat("UPDATE ", Table("lanes"), " SET fence=fence+1"));
    } else {
      ended = ConnectProcess(process);
      const std::lock_guard lock(mutex_);
      processes_[process].swap(ended);
    }
    const std::lock_guard lock(mutex_);
    ++result_.kills;
  }

  void RunThread(Group& group, int number, size_t process) {
    std::mt19937_64 random(static_cast<uint64_t>(number) * kProcesses + process);
    for (;;) {
      if (process == 0) Begin(group, number);
      group.meeting.arrive_and_wait();
      if (group.over) return;
      FleetCaller caller(group.skus, group.ids);
      for (size_t i = process * kOperationsEach; i < (process + 1) * kOperationsEach; ++i) {
        FleetOperation& op = group.plan[i];
        poll(nullptr, 0, group.waits_ms[i]);
        const bool ends = op.kind == FleetOperation::kCommit || op.kind == FleetOperation::kCancel;
        if (ends && group.plan[op.request].kind == FleetOperation::kTake) {
          group.made[i] = false;
          continue;
        }
        if (ends && group.plan[op.request].is_short) {
          // It runs out, and is ended now at the latest.
          if (caller.OrderOf(op.request) != 0) (void)Process(process)->StateOf(caller.OrderOf(op.request));
          group.made[i] = false;
          continue;
        }
        const std::shared_ptr<Inventory> shop = Process(process);
        op.begin = group.tick.fetch_add(1);
        group.made[i] = caller.Call(*shop, op);
        op.end = group.tick.fetch_add(1);
        if (op.is_short && op.answer == FleetOperation::kDone && op.request == i) {
          group.short_orders[i] = caller.OrderOf(i);
        }
        const bool is_cancel = op.kind == FleetOperation::kCancel && group.made[i];
        if (is_cancel && settings_.kills != 0 && random() % settings_.kills == 0) Kill(process, random() % 3);
      }
      group.meeting.arrive_and_wait();
      if (process == 0) Check(group);
    }
  }

  void Begin(Group& group, int number) {
    const int64_t begun = started_.fetch_add(1);
    const bool enough = begun >= settings_.histories && RefusalsByLease() > settings_.refusals_by_lease;
    group.over = over_ || enough || Clock::System()->Now() > give_up_;
    if (group.over) return;
    const auto below = [&](uint64_t bound) { return static_cast<int64_t>(group.random() % bound); };
    group.ids = Concat("g", number, "-", group.histories, "-");
    if (group.histories++ % kHistoriesOfSkus == 0) {
      group.skus = {group.ids + "a", group.ids + "b"};
      group.first = {};
      group.held_before = {};
      for (size_t i = 0; i < 2; ++i) {
        const int64_t stock = below(3);
        const absl::Status added =
            Process(0)->AddSku(group.skus[i], {.stock = stock, .shards = 1 + static_cast<int32_t>(below(3))});
        EXPECT_TRUE(added.ok()) << added;
        group.first.units[i] = group.first.unsold[i] = stock;
      }
      group.first.has_leases = true;
    }
    group.short_orders = {};
    for (size_t i = 0; i < kOperations; ++i) {
      FleetOperation& op = group.plan[i];
      op = {};
      const size_t first_of_thread = i / kOperationsEach * kOperationsEach;
      op.kind = settings_.kinds[static_cast<size_t>(below(settings_.kinds.size()))];
      op.item = below(6) == 0 ? 1 : 0;  // Mostly one, so that calls meet.
      op.units = below(4) == 0 ? 2 : 1;
      op.second_units = op.kind == kBasket ? 1 : 0;
      op.request = i;
      op.is_short = (op.kind == kReserve || op.kind == kBasket) && below(4) == 0;
      op.self = i;
      if ((op.kind == kCommit || op.kind == kCancel || op.kind == kTakeBack) && i > first_of_thread) {
        op.request = first_of_thread + static_cast<size_t>(below(i - first_of_thread));
        op.item = group.plan[op.request].item;
      }
      // Often a request that was sent before, by any of the processes.
      const size_t position = i - first_of_thread;
      const FleetOperation& before = group.plan[static_cast<size_t>(below(i / kOperationsEach + 1)) * kOperationsEach +
                                                static_cast<size_t>(below(position + 1))];
      if (op.wants_units() && &before != &op && before.wants_units() && below(2) == 0) op = before;
      group.waits_ms[i] = below(4) == 0 ? static_cast<int>(below(20)) : 0;
    }
  }

  void Check(Group& group) {
    // What must be held in the end, and sold.
    std::array<int64_t, 2> held = group.held_before;
    std::vector<FleetOperation> history;
    std::array<FleetState::Order, FleetState::kRequests> orders = {};
    int64_t refusals = 0;
    int64_t repeats = 0;
    int64_t expiries = 0;
    const auto add = [&](const FleetOperation& of, int64_t sign) {
      held[of.item] += sign * of.units;
      held[1 - of.item] += sign * of.second_units;
    };
    // The units of an order come back, each item by itself, at some time after `begin`.
    const auto add_returns = [&](const FleetOperation& of, uint64_t begin) {
      FleetOperation back{.kind = FleetOperation::kReturn, .item = of.item, .request = of.request, .begin = begin};
      back.end = UINT64_MAX;
      history.push_back(back);
      back.item = 1 - of.item;
      if (of.second_units > 0) history.push_back(back);
    };
    // Of the calls with a request id.
    std::array<uint64_t, FleetState::kRequests> first_begins;
    first_begins.fill(UINT64_MAX);
    for (const FleetOperation& op : group.plan) {
      if (op.wants_units()) first_begins[op.request] = std::min(first_begins[op.request], op.begin);
    }
    for (size_t i = 0; i < kOperations; ++i) {
      const FleetOperation& op = group.plan[i];
      if (!group.made[i] || op.kind == FleetOperation::kCancel) continue;
      history.push_back(op);
      if (!op.wants_units()) continue;
      if (op.answer != FleetOperation::kDone) {
        ++refusals;
        continue;
      }
      if (orders[op.request] != FleetState::kNone) {
        ++repeats;
        continue;
      }
      orders[op.request] = FleetState::kEnded;
      if (op.kind == FleetOperation::kTake) continue;
      if (op.is_short) {
        ++expiries;
        add_returns(op, first_begins[op.request]);
      } else {
        add(op, 1);
      }
    }
    for (size_t i = 0; i < kOperations; ++i) {
      const FleetOperation& op = group.plan[i];
      const bool is_cancel = op.kind == FleetOperation::kCancel;
      if (!group.made[i] || !(is_cancel || op.kind == FleetOperation::kCommit)) continue;
      add(group.plan[op.request], -1);
      if (is_cancel) add_returns(group.plan[op.request], op.begin);
    }
    for (size_t i = 0; i < kOperations; ++i) EndShort(group, i, orders[i] != FleetState::kNone);

    const uint64_t before_reads = group.tick.fetch_add(1);
    for (FleetOperation& op : history) {
      if (op.kind == FleetOperation::kReturn) op.end = before_reads;
    }
    for (size_t item = 0; item < 2; ++item) {
      const StockFigures figures = AwaitHeld(group.skus[item], held[item]);
      history.push_back({.kind = FleetOperation::kRead, .item = item, .units = figures.available});
      history.back().begin = group.tick.fetch_add(1);
      history.back().end = group.tick.fetch_add(1);
    }
    const bool is_explained = HasExplanation(history, group.first);
    const std::lock_guard lock(mutex_);
    ++result_.histories;
    result_.calls += static_cast<int64_t>(history.size());
    result_.refusals += refusals;
    result_.repeats += repeats;
    result_.expiries += expiries;
    if (!is_explained && result_.unexplained.empty()) {
      result_.unexplained =
          Concat("of ", group.first.units[0], " and ", group.first.units[1], " units at first, ", group.first.unsold[0],
                 " and ", group.first.unsold[1], " unsold, of ", group.skus[0], ":\n", Describe(history));
    }
    if (result_.found()) over_ = true;
    group.held_before = held;
    for (size_t item = 0; item < 2; ++item) {
      group.first.units[item] = history[history.size() - 2 + item].units;
      group.first.unsold[item] = group.first.units[item] + held[item];
    }
  }

  // A short order that somebody got is over afterwards.
  void EndShort(Group& group, size_t request, bool is_granted) {
    const FleetOperation& op = group.plan[request];
    if (!op.is_short || !is_granted || op.request != request) return;
    OrderId order = group.short_orders[request];
    const std::shared_ptr<Inventory> shop = Process(group.random() % kProcesses);
    if (order == 0) {
      // Only a repeat got it.
      const std::string id = Concat(group.ids, request);
      const std::string& sku = group.skus[op.item];
      const auto note = [&](const auto& repeated) {
        if (repeated.ok()) {
          order = repeated->id();
          return;
        }
        const std::lock_guard lock(mutex_);
        result_.unexplained = Concat("a repeat of a request that took units: ", repeated.status().ToString());
      };
      if (op.kind == FleetOperation::kReserve) {
        note(shop->Reserve({.sku = sku, .quantity = op.units, .request_id = id, .ttl = FleetCaller::kShortTtl}));
      } else {
        note(shop->ReserveBasket({.lines = {{sku, op.units}, {group.skus[1 - op.item], op.second_units}},
                                  .request_id = id,
                                  .ttl = FleetCaller::kShortTtl}));
      }
      if (order == 0) return;
    }
    while (shop->StateOf(order).value_or(OrderState::kExpired) == OrderState::kHeld) poll(nullptr, 0, 1);
  }

  // Until the SKU has nothing in limbo, so that only orders hold units.
  StockFigures AwaitHeld(const std::string& sku, int64_t held) {
    const Instant start = Clock::System()->Now();
    for (;;) {
      // Whichever process asks sees to the units in limbo.
      const absl::StatusOr<StockFigures> figures = Process(static_cast<size_t>(held) % kProcesses)->Figures(sku);
      EXPECT_TRUE(figures.ok()) << figures.status();
      if (!figures.ok() || figures->held == held) return figures.value_or(StockFigures());
      const absl::Duration waited = Clock::System()->Now() - start;
      if (waited > absl::Seconds(1) && IsStuck(sku, waited)) return *figures;
      poll(nullptr, 0, 5);
    }
  }

  // Nobody moves the limbo of a latched SKU.
  bool IsStuck(const std::string& sku, absl::Duration waited) {
    const std::lock_guard kill_lock(kill_mutex_);
    const std::string where = Concat(" FROM ", Table("skus"), " WHERE sku='", sku, "'");
    if (server().Value("SELECT mode=1 AND limbo>0" + where) != "1" && waited < absl::Minutes(1)) return false;
    const std::string row = server().Value("SELECT CONCAT('mode ',mode,', epoch ',epoch,', limbo ',limbo)" + where);
    const std::lock_guard lock(mutex_);
    if (result_.stuck.empty()) result_.stuck = Concat(sku, ": ", row);
    return true;
  }

  HistorySettings settings_;
  const std::unique_ptr<MetricsRegistry> registry_ = std::make_unique<MetricsRegistry>();
  Instant give_up_ = {};
  std::atomic<bool> over_ = false;
  std::atomic<int64_t> started_ = 0;
  std::mutex kill_mutex_;  // Locked before mutex_.
  std::mutex mutex_;
  std::array<std::shared_ptr<Inventory>, kProcesses> processes_;
  HistoryResult result_;
};

TEST_F(FleetRefusalHistoriesTest, ThreeProcessesRefuseByLeases_EveryHistoryIsExplained) {
  const int64_t histories = Scaled(600, 100'000);
  const HistoryResult result =
      Run({.histories = histories,
           .refusals_by_lease = histories / 2,
           .delays = {.at = {FleetPause::kLookReplied, FleetPause::kLeaseReplied, FleetPause::kIdsLoading,
                             FleetPause::kIdsLoaded, FleetPause::kBeforeMove},
                      .one_in = 30,
                      .longest_ms = 60},
           .kills = 10});
  result.Print("sound");
  EXPECT_TRUE(result.unexplained.empty()) << "no order explains this history, " << result.unexplained;
  EXPECT_TRUE(result.stuck.empty()) << "units stay in limbo: " << result.stuck;
  EXPECT_GE(result.histories, histories);
  EXPECT_GT(result.refusals_by_lease, histories / 2);
  EXPECT_GT(result.repeats, histories / 10);
  EXPECT_GT(result.limbo_moves, histories / 20);
  EXPECT_TRUE(result.kills > 0 || histories < 500);
}

#ifdef STOCKADE_CRASH_POINTS

struct Variant {
  const char* name;
  HistorySettings settings;
};

class FleetDefectsTest : public FleetRefusalHistoriesTest, public ::testing::WithParamInterface<Variant> {};

TEST_P(FleetDefectsTest, RuleIsLeftOut_CheckerFindsIt) {
  const HistoryResult result = Run(GetParam().settings);
  result.Print(GetParam().name);
  std::cout << result.unexplained << result.stuck << "\n";
  EXPECT_TRUE(result.found());
}

// Of these two the checker notices nothing unless a constraint of the tables is dropped, too.
class FleetConstraintTest : public FleetRefusalHistoriesTest, public ::testing::WithParamInterface<FleetDefect> {};

TEST_P(FleetConstraintTest, RuleIsLeftOut_ConstraintKeepsHistoriesRight) {
  const HistoryResult result = Run({.histories = 100, .defect = GetParam()});
  result.Print("with its constraint");
  EXPECT_FALSE(result.found()) << result.unexplained << result.stuck;
}
INSTANTIATE_TEST_SUITE_P(Rules, FleetConstraintTest,
                         ::testing::Values(FleetDefect::kSecondToPool, FleetDefect::kNoLimboCheck));

// Rules that histories of chance need half a minute for: a script of three processes, whose calls the checker sees.
class FleetScriptTest : public FleetTest {
 protected:
  FleetScriptTest() { self_ = this; }
  ~FleetScriptTest() override {
    EndPause();
    inventory_internal::fleet_defect = FleetDefect::kNone;
  }

  std::unique_ptr<Inventory> Process(const std::string& name, absl::Duration lease) {
    FleetInventoryOptions options = Options();
    options.name = name;
    options.refusal_lease = lease;
    options.metrics = &registry_;
    return Connect(std::move(options));
  }
  int64_t RefusedByLease(const std::string& name) const {
    return static_cast<int64_t>(
        Exported(registry_, Concat("stockade_inventory_fleet_refusals_total{inventory=\"", name, "\",by=\"lease\"}")));
  }
  // One call after another.
  void Call(FleetCaller& caller, Inventory& shop, FleetOperation op) {
    op.begin = tick_++;
    if (!caller.Call(shop, op)) return;
    op.end = tick_++;
    if (op.kind == kCancel) {
      op.kind = kReturn;
      op.end = UINT64_MAX;
    }
    history_.push_back(op);
  }
  bool IsExplained(int64_t units) const {
    return HasExplanation(history_, FleetState{.units = {units}, .unsold = {units}, .has_leases = true});
  }

  // What threads of the processes do at a place.
  void SetPause(FleetPause place, std::function<void()> pause) {
    place_ = place;
    at_pause_ = std::move(pause);
    inventory_internal::fleet_pause = [](FleetPause here) {
      ++self_->pausing_;
      if (here == self_->place_ && inventory_internal::fleet_pause.load() != nullptr) self_->at_pause_();
      --self_->pausing_;
    };
  }
  // Blocks until no thread is there any more: what they do needs the processes.
  void EndPause() {
    inventory_internal::fleet_pause = nullptr;
    Await("threads at the pause", [&] { return pausing_ == 0; });
  }

  static inline FleetScriptTest* self_ = nullptr;
  MetricsRegistry registry_;
  uint64_t tick_ = 0;
  std::vector<FleetOperation> history_;
  FleetPause place_ = {};
  std::function<void()> at_pause_;
  std::atomic<int> pausing_ = 0;
};

TEST_F(FleetScriptTest, IdsFirst_CheckerFindsIt) {
  const auto one = Process("one", absl::Seconds(1));
  const auto two = Process("two", absl::Seconds(1));
  inventory_internal::fleet_defect = FleetDefect::kIdsFirst;
  bool found = false;
  // The ids may also be loaded by the other lane, as they should be.
  for (int i = 0; i < 100 && !found; ++i) {
    const std::array skus = {Concat("a", i), Concat("b", i)};
    ASSERT_TRUE(one->AddSku(skus[0], {.stock = 0}).ok());
    history_.clear();
    FleetCaller caller_of_one(skus, skus[0]);
    FleetCaller caller_of_two(skus, skus[0]);
    static std::atomic<int> pauses;
    pauses = 0;
    SetPause(FleetPause::kIdsLoaded, [&] {
      if (pauses.fetch_add(1) > 0) return;
      Call(caller_of_two, *two, {.kind = kRestock});
      Call(caller_of_two, *two, {.kind = kTake, .request = 1});
    });
    (void)one->Take({.sku = skus[0], .request_id = "nobody"});
    // The latch comes after the answer.
    const int64_t before = RefusedByLease("one");
    const Instant end = Clock::System()->Now() + absl::Seconds(10);
    while (RefusedByLease("one") == before && Clock::System()->Now() < end) {
      (void)one->Take({.sku = skus[0], .request_id = "nobody"});
    }
    EndPause();
    Call(caller_of_one, *one, {.kind = kTake, .request = 1});
    found = !IsExplained(0);
  }
  EXPECT_TRUE(found);
}

TEST_F(FleetScriptTest, LateMover_CheckerFindsIt) {
  const absl::Duration lease = absl::Milliseconds(300);
  auto late = Process("late", lease);
  auto one = Process("one", lease);
  const auto two = Process("two", lease);
  inventory_internal::fleet_defect = FleetDefect::kLateMover;
  bool found = false;
  for (int i = 0; i < 20 && !found; ++i) {
    const std::array<std::string, 2> names = {Concat("a", i), Concat("b", i)};
    ASSERT_TRUE(one->AddSku(names[0], {.stock = 1}).ok());
    history_.clear();
    FleetCaller caller(names, names[0]);
    FleetCaller caller_of_two(names, names[0] + "two");
    // The first process that moves is late: nobody else knows of the units.
    static std::atomic<int> moves;
    static std::atomic<bool> is_released;
    moves = 0;
    is_released = false;
    SetPause(FleetPause::kBeforeMove, [] {
      if (moves.fetch_add(1) > 0) return;
      while (!is_released) poll(nullptr, 0, 1);
    });
    // Another process may have seen the units first, as one that expires orders does: then it is the late one, and this
    // attempt shows nothing.
    const auto within = [](const auto& holds) {
      const Instant end = Clock::System()->Now() + absl::Seconds(5);
      while (!holds() && Clock::System()->Now() < end) poll(nullptr, 0, 1);
      return holds();
    };
    const auto is_leased = [&, before = RefusedByLease("two")] {
      (void)two->Take({.sku = names[0], .request_id = "nobody"});
      return RefusedByLease("two") > before;
    };
    const auto runs_to_its_end = [&] {
      Call(caller, *one, {.kind = kReserve, .request = 0});
      if (!within(is_leased)) return false;
      Call(caller, *one, {.kind = kCancel, .request = 0});
      one.reset();  // It ends before it moves the unit.
      one = Process("one", lease);
      EXPECT_EQ(late->Available(names[0]).value(), 0);
      if (!within([] { return moves == 1; })) return false;
      if (!within([&] { return one->Available(names[0]).value() == 1; })) return false;
      Call(caller, *one, {.kind = kReserve, .request = 1});
      const int64_t before = RefusedByLease("two");
      if (!within([&] { return is_leased() && RefusedByLease("two") > before; })) return false;
      Call(caller, *one, {.kind = kCancel, .request = 1});
      is_released = true;
      if (!within([&] { return one->Available(names[0]).value() == 1; })) return false;
      Call(caller, *one, {.kind = kRead});
      Call(caller_of_two, *two, {.kind = kTake, .request = 2});
      return true;
    };
    const bool ran = runs_to_its_end();
    is_released = true;
    EndPause();
    found = ran && !IsExplained(1);
  }
  EXPECT_TRUE(found);
}

std::vector<Variant> Variants() {
  constexpr auto kLeases = [](int ms) {
    return std::array{absl::Milliseconds(ms), absl::Milliseconds(ms), absl::Milliseconds(ms)};
  };
  return {
      {"SecondToPool",
       {.defect = FleetDefect::kSecondToPool, .leases = kLeases(50), .dropped_constraint = "stock latched"}},
      {"LookFirst",
       {.defect = FleetDefect::kLookFirst,
        .delays = {.at = {FleetPause::kLookReplied}, .one_in = 4, .longest_ms = 20}}},
      {"FromReply",
       {.defect = FleetDefect::kFromReply,
        .leases = kLeases(30),
        .delays = {.at = {FleetPause::kLeaseReplied}, .one_in = 8, .longest_ms = 90}}},
      {"NoWait", {.defect = FleetDefect::kNoWait, .leases = kLeases(50)}},
      {"NoLimboCheck", {.defect = FleetDefect::kNoLimboCheck, .dropped_constraint = "skus limbo"}},
      {"EmptyIsSoldOut", {.defect = FleetDefect::kEmptyIsSoldOut}},
      {"NoIds", {.defect = FleetDefect::kNoIds}},
      {"ReturnEarly",
       {.defect = FleetDefect::kReturnEarly, .leases = kLeases(100), .kinds = {kTake, kTake, kTake, kTakeBack}}},
  };
}
INSTANTIATE_TEST_SUITE_P(Rules, FleetDefectsTest, ::testing::ValuesIn(Variants()),
                         [](const auto& variant) { return std::string(variant.param.name); });

#endif

}  // namespace
}  // namespace stockade::testing
