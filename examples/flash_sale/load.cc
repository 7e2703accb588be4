#include "load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "buyers.h"
#include "errors.h"
#include "stockade/base/clock.h"

namespace flash_sale {
namespace {

using stockade::Clock;
using stockade::Instant;

void SleepUntil(Instant at) {
  const absl::Duration left = at - Clock::System()->Now();
  if (left > absl::ZeroDuration()) std::this_thread::sleep_for(absl::ToChronoNanoseconds(left));
}

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
      // Who is late does not catch up.
      due = std::max(due + kViewInterval, Clock::System()->Now());
      seen_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  int64_t seen() const { return seen_.load(std::memory_order_relaxed); }
  const LatencyHistogram& times() const { return times_; }

 private:
  void View(ProductId id) {
    std::optional<HotKeyLog::View> hot_view;
    if (id == plan_.hot) hot_view.emplace(*log_);
    const Instant begin = Clock::System()->Now();
    const absl::StatusOr<Product> page = shop_->View(id);
    times_.Add(Clock::System()->Now() - begin);
    if (!page.ok()) errors_->Add(page.status());
  }

  const LoadPlan& plan_;
  const int64_t number_;
  Shop* const shop_;
  HotKeyLog* const log_;
  Errors* const errors_;
  std::atomic<int64_t> seen_{0};
  LatencyHistogram times_;
};

}  // namespace

LoadResult RunLoad(const std::string& label, const LoadPlan& plan, Shop* shop, HotKeyLog* log, Progress* progress) {
  Errors errors;
  Referee referee(plan.stock);
  Buyers buyers(shop, plan.hot, log, &referee, &errors, plan.seed);
  std::vector<std::unique_ptr<Viewer>> viewers;
  for (int64_t v = 0; v < plan.viewers; ++v) {
    viewers.push_back(std::make_unique<Viewer>(plan, v, shop, log, &errors));
  }

  const Instant start = Clock::System()->Now();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(viewers.size());
  for (const auto& viewer : viewers) threads.emplace_back([&] { viewer->Run(start, stop); });

  const auto detail = [&] {
    int64_t seen = 0;
    for (const auto& viewer : viewers) seen += viewer->seen();
    return absl::StrCat(seen, " page views, ", buyers.served(), " turns of buyers, ", referee.Figures().orders,
                        " orders");
  };
  const auto tell = [&] {
    progress->Update(label, absl::FDivDuration(Clock::System()->Now() - start, plan.duration), detail());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };

  while (Clock::System()->Now() < start + plan.duration / 3) tell();
  progress->Say(absl::StrCat(label, ": the sale opens, ", plan.stock, " units for ", plan.buyers, " buyers"));
  std::atomic<bool> sale_over{false};
  std::thread sale([&] {
    buyers.Run(plan.buyers);
    sale_over.store(true);
  });
  while (!sale_over.load() || Clock::System()->Now() < start + plan.duration) tell();
  stop.store(true);
  sale.join();
  for (std::thread& thread : threads) thread.join();
  progress->Finish(label, detail());

  LoadResult result{.sale = referee.Figures(), .hot_key = log->Figures()};
  for (const auto& viewer : viewers) result.page_views.Merge(viewer->times());
  result.retried = buyers.counts().retried;
  result.cancelled = buyers.counts().cancelled;
  result.abandoned = buyers.counts().abandoned;
  result.errors = errors.count();
  if (result.errors > 0) result.first_error = errors.first().ToString();
  return result;
}

}  // namespace flash_sale
