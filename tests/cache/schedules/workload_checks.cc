#include <algorithm>
#include <string_view>

#include "cache/schedules/workload.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

void Workload::Expect(bool right, std::string_view what, int64_t found) {
  if (!right && wrong_.empty()) wrong_ = base_internal::Concat(what, ": ", found);
}

void Workload::CheckStep() {
  Expect(cache_->weight() <= plan_.max_weight + recorder_.storing(), "weight beyond the bound", cache_->weight());
}

void Workload::CheckEnd() {
  const auto of_kind = [&](CallKind kind) {
    int64_t count = 0;
    for (const Call& call : history().calls) count += call.kind == kind;
    return count;
  };
  const int64_t lookups = of_kind(CallKind::kGet) + of_kind(CallKind::kGetIfPresent);
  const int64_t loads = recorder_.runs();
  Expect(Counted("stockade_cache_flights") == 0, "flights left over", Counted("stockade_cache_flights"));
  Expect(Counted("stockade_cache_waiters") == 0, "waiters left over", Counted("stockade_cache_waiters"));
  Expect(Counted("stockade_cache_requests_total") == lookups, "requests counted",
         Counted("stockade_cache_requests_total"));
  Expect(Counted("stockade_cache_loads_total") == loads, "loads counted", Counted("stockade_cache_loads_total"));
  Expect(cache_->weight() == cache_->size(), "weight other than the entries'", cache_->weight());
  Expect(cache_->size() >= 0 && cache_->size() <= std::min<int64_t>(plan_.keys, plan_.max_weight), "size",
         cache_->size());
  cache_->InvalidateAll();
  Expect(cache_->size() == 0 && cache_->weight() == 0, "size without any entry", cache_->size());
  const int64_t live = cache_->End();
  Expect(live == 0, "values left over", live);
  Expect(cache_->spoilt() == 0, "values that changed while they were pinned", cache_->spoilt());
}

// The sum of the metric's series.
int64_t Workload::Counted(std::string_view metric) const {
  double sum = 0;
  for (const prometheus::MetricFamily& family : registry_.Collect()) {
    if (family.name != metric) continue;
    for (const prometheus::ClientMetric& series : family.metric) sum += series.counter.value + series.gauge.value;
  }
  return static_cast<int64_t>(sum);
}

}  // namespace stockade::testing
