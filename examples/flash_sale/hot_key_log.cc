#include "hot_key_log.h"

#include <algorithm>

namespace flash_sale {
namespace {

using stockade::Instant;

// The queries that the view of this thread has made: indices into queries_.
thread_local std::vector<size_t> this_views_queries;

}  // namespace

HotKeyLog::View::View(HotKeyLog& log) : log_(log) {
  const std::lock_guard lock(log_.mutex_);
  log_.last_view_start_ = log_.clock_->Now();
}

HotKeyLog::View::~View() {
  if (this_views_queries.empty()) return;
  const std::lock_guard lock(log_.mutex_);
  const Instant now = log_.clock_->Now();
  for (const size_t query : this_views_queries) log_.queries_[query].view_end = now;
  this_views_queries.clear();
}

size_t HotKeyLog::BeginQuery() {
  const std::lock_guard lock(mutex_);
  queries_.push_back({.start = clock_->Now()});
  this_views_queries.push_back(queries_.size() - 1);
  return queries_.size() - 1;
}

void HotKeyLog::EndQuery(size_t query) {
  const std::lock_guard lock(mutex_);
  queries_[query].end = clock_->Now();
}

int64_t HotKeyLog::queries() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(queries_.size());
}

HotKeyFigures HotKeyLog::Figures() const {
  const std::lock_guard lock(mutex_);
  HotKeyFigures figures{.queries = static_cast<int64_t>(queries_.size())};
  size_t first = 0;
  while (first < queries_.size()) {
    Instant first_end = queries_[first].end;
    Instant last_view_end = queries_[first].view_end;
    size_t next = first + 1;
    // The first query to end may have started later than others of its generation.
    while (next < queries_.size() && queries_[next].start < first_end + ttl_ * (1 - kSlack)) {
      first_end = std::min(first_end, queries_[next].end);
      last_view_end = std::max(last_view_end, queries_[next].view_end);
      ++next;
    }
    if (next < queries_.size() || last_view_start_ > last_view_end + ttl_ * (1 + kSlack)) ++figures.expiries;
    first = next;
  }
  return figures;
}

}  // namespace flash_sale
