#include "cache/schedules/plan.h"

#include <algorithm>

#include "cache/schedules/random.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

Plan::Plan(uint64_t seed) {
  Random random(seed);
  pinned = seed / kFamilies % 2 == 1;
  const auto has = [&](Family family) { return FamilyOf(seed) == family || random.OneIn(4); };
  const auto span = [&](int low, int high) { return random.Between(low, high) * kUnit; };
  if (has(Family::kExpiry)) {
    rules.ttl = random.OneIn(8) ? 0 : span(2, 12);
    rules.negative_ttl = span(0, 8);
    if (random.OneIn(4)) rules.ttl_jitter = 0.5;
  }
  if (has(Family::kStale)) {
    if (rules.ttl == Scheduler::kNever) rules.ttl = span(1, 6);
    rules.stale_if_error = span(2, 20);
  }
  if (has(Family::kRevalidate)) {
    if (rules.ttl == Scheduler::kNever) rules.ttl = span(1, 6);
    rules.stale_while_revalidate = span(2, 20);
    refresh_threads = random.Between(1, 2);
  }
  if (has(Family::kRefresh)) {
    if (rules.ttl == Scheduler::kNever) rules.ttl = span(6, 20);
    rules.refresh_ahead = 0.25;
    refresh_threads = random.Between(1, 2);
  }
  if (FamilyOf(seed) == Family::kTimeout) rules.load_hard_timeout = span(1, 8);
  rules.retry_backoff = span(0, 6);
  if (has(Family::kExecutor)) load_threads = random.Between(1, 2);
  keys = random.Between(1, 2);
  if (has(Family::kBatch)) {
    batches = true;
    keys = random.Between(2, 3);
  }
  if (has(Family::kBound)) {
    keys = random.Between(2, 3);
    max_weight = random.Between(1, keys - 1);
    rules.evicts = true;
  }
  callers = random.Between(2, 4);
  calls = random.Between(2, 5);
  load_points = random.Between(1, 5);
  nested_in = random.Between(1, 8);
  failing_in = rules.stale_if_error > 0 ? random.Between(2, 4) : random.Between(2, 8);
  const int shape_draw = random.Below(6);
  if (shape_draw == 0) {
    shape = Shape::kStorm;
    callers = 4;
    calls = 5;
    load_points = random.Between(4, 12);
    if (!rules.evicts) keys = 1;
  } else if (shape_draw == 1) {
    shape = Shape::kNested;
    callers = 4;
    nested_in = 1;
    keys = std::max(keys, 2);
  }
}

std::string Plan::Text() const {
  const auto text = [](int64_t span) {
    return span == Scheduler::kNever ? std::string("infinite") : base_internal::Concat(span);
  };
  return base_internal::Concat(
      "ttl ", text(rules.ttl), ", ttl_jitter ", rules.ttl_jitter, ", refresh_ahead ", rules.refresh_ahead,
      ", negative_ttl ", rules.negative_ttl, ", stale_while_revalidate ", rules.stale_while_revalidate,
      ", stale_if_error ", rules.stale_if_error, ", retry_backoff ", rules.retry_backoff, ", load_hard_timeout ",
      text(rules.load_hard_timeout), ", max_weight ", max_weight, pinned ? ", values pinned" : ", values copied",
      ", load threads ", load_threads, ", batches ", batches ? 1 : 0, ", keys ", keys, ", callers ", callers, " of ",
      calls, " calls");
}

}  // namespace stockade::testing
