#include "load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "buyers.h"
#include "errors.h"
#include "sleep_until.h"
#include "stockade/base/clock.h"

namespace flash_sale {
namespace {

using stockade::Clock;
using stockade::Instant;

// The page views of one viewer; the viewers take turns at the trace.
class Viewer {
 public:
  Viewer(const LoadPlan& plan, int64_t number, Shop* shop, HotKeyLog* log, Errors* errors)
      : plan_(plan), number_(number), shop_(shop), log_(log), errors_(errors) {}

  void Run(Instant start, const std::atomic<bool>& stop) {
    Instant due = start + kViewInterval * number_ / plan_.viewers;
    size_t at = static_cast<size_t>(number_) % plan_.views->size();
    for (int64_t turn = number_; !stop.load(std::memory_order_relaxed); ++turn) {
      SleepUntil(due);
      ProductId id = plan_.hot;
      if (turn % kHotPageEvery != 0) {
        id = (*plan_.views)[at];
        at = (at + static_cast<size_t>(plan_.viewers)) % plan_.views->size();
      }
      View(id);
      // A viewer that is late does not catch up.
      due = std::max(due + kViewInterval, Clock::System()->Now());
      seen_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  int64_t seen() const { return seen_.load(std::memory_order_relaxed); }
  LatencyHistogram times() const {
    const std::lock_guard lock(times_mutex_);
    return times_;
  }

 private:
  void View(ProductId id) {
    std::optional<HotKeyLog::View> hot_view;
    if (id == plan_.hot) hot_view.emplace(*log_);
    const Instant begin = Clock::System()->Now();
    const absl::StatusOr<Product> page = shop_->View(id);
    const absl::Duration took = Clock::System()->Now() - begin;
    {
      const std::lock_guard lock(times_mutex_);
      times_.Add(took);
    }
    if (!page.ok()) errors_->Add(page.status());
  }

  const LoadPlan& plan_;
  const int64_t number_;
  Shop* const shop_;
  HotKeyLog* const log_;
  Errors* const errors_;
  std::atomic<int64_t> seen_{0};
  mutable std::mutex times_mutex_;
  LatencyHistogram times_;  // Guarded by times_mutex_.
};

}  // namespace

LoadResult RunLoad(const Half& half, const LoadPlan& plan, Progress* progress) {
  Errors errors;
  Referee referee(plan.stock);
  Buyers buyers(half.shop, plan.hot, half.log, &referee, &errors, plan.seed);
  std::vector<std::unique_ptr<Viewer>> viewers;
  for (int64_t v = 0; v < plan.viewers; ++v) {
    viewers.push_back(std::make_unique<Viewer>(plan, v, half.shop, half.log, &errors));
  }

  const Instant start = Clock::System()->Now();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(viewers.size());
  for (const auto& viewer : viewers) threads.emplace_back([&] { viewer->Run(start, stop); });

  const int64_t queries_before = half.catalogue->queries();
  const auto all_times = [&] {
    LatencyHistogram times;
    for (const auto& viewer : viewers) times.Merge(viewer->times());
    return times;
  };
  const auto detail = [&] {
    int64_t seen = 0;
    for (const auto& viewer : viewers) seen += viewer->seen();
    return absl::StrCat(seen, " page views, ", buyers.served(), " turns of buyers, ", referee.Figures().orders,
                        " orders");
  };
  const auto show = [&] {
    const absl::StatusOr<int64_t> left = half.shop->Left();
    if (!left.ok()) return errors.Add(left.status());
    const LatencyHistogram times = all_times();
    const SaleFigures sale = referee.Figures();
    half.board->Add({.elapsed = Clock::System()->Now() - start,
                     .page_views = times.count(),
                     .page_view_p99 = times.Quantile(0.99),
                     .queries = half.catalogue->queries() - queries_before,
                     .hot_queries = half.log->queries(),
                     .orders = sale.orders,
                     .refusals = sale.refusals,
                     .wrong_refusals = sale.wrong_refusals,
                     .sold = buyers.counts().sold.load(),
                     .units_left = *left});
  };
  const auto tell = [&] {
    progress->Update(half.label, absl::FDivDuration(Clock::System()->Now() - start, plan.duration), detail());
    show();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };

  half.board->SetStage(Stage::kPageViews);
  while (Clock::System()->Now() < start + plan.duration / 3) tell();
  half.board->SetStage(Stage::kSale);
  progress->Say(absl::StrCat(half.label, ": the sale opens, ", plan.stock, " units for ", plan.buyers, " buyers"));
  std::atomic<bool> sale_over{false};
  std::thread sale([&] {
    buyers.Run(plan.buyers, {.buyers = plan.stock + plan.stock / 2, .time = plan.arrival});
    sale_over.store(true);
  });
  while (!sale_over.load() || Clock::System()->Now() < start + plan.duration) tell();
  stop.store(true);
  sale.join();
  for (std::thread& thread : threads) thread.join();
  show();
  half.board->SetStage(Stage::kAudit);
  progress->Finish(half.label, detail());

  LoadResult result{.page_views = all_times(), .sale = referee.Figures(), .hot_key = half.log->Figures()};
  result.retried = buyers.counts().retried;
  result.cancelled = buyers.counts().cancelled;
  result.abandoned = buyers.counts().abandoned;
  result.errors = errors.count();
  if (result.errors > 0) result.first_error = errors.first().ToString();
  return result;
}

}  // namespace flash_sale
