#include "commit_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stockade/base/crash_point.h"
#include "stockade/base/log.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {

absl::Status DurableNotifier::Start() {
  return StartThread(thread_, [this] { Run(); });
}

void DurableNotifier::Stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock own(mutex_);
    stopping_ = true;
  }
  settled_or_stopping_.NotifyOne();
  thread_.join();
}

void DurableNotifier::Add(uint64_t position, Done done) {
  const MutexLock own(mutex_);
  // Positions come nearly in order, so most go to the end.
  outstanding_.emplace_hint(outstanding_.end(), position, std::move(done));
}

void DurableNotifier::SetOutcome(uint64_t up_to, const absl::Status& outcome) {
  {
    const MutexLock own(mutex_);
    if (outstanding_.empty() || outstanding_.begin()->first > up_to) return;
    if (outcome.ok() && !settled_.empty() && settled_.back().outcome.ok()) {
      settled_.back().up_to = up_to;
    } else {
      settled_.push_back({up_to, outcome});
    }
  }
  settled_or_stopping_.NotifyOne();
}

void DurableNotifier::Run() {
  std::vector<std::pair<Done, absl::Status>> calls;
  const MutexLock own(mutex_);
  while (true) {
    while (settled_.empty() && !stopping_) settled_or_stopping_.Wait(mutex_);
    if (settled_.empty()) return;
    for (const Settled& settled : settled_) {
      const auto end = outstanding_.upper_bound(settled.up_to);
      for (auto next = outstanding_.begin(); next != end; ++next) {
        calls.emplace_back(std::move(next->second), settled.outcome);
      }
      outstanding_.erase(outstanding_.begin(), end);
    }
    settled_.clear();
    const MutexUnlock unlocked(mutex_);
    for (auto& [done, outcome] : calls) done(std::move(outcome));
    calls.clear();
  }
}

absl::Status CommitQueue::Start(uint64_t last_row) {
  {
    const MutexLock own(mutex_);
    decided_ = flight_end_ = appended_ = last_row;
  }
  return notifier_.Start();
}

bool CommitQueue::WasRefused(uint64_t position) const {
  const auto range = refused_ranges_.lower_bound(position);
  return range != refused_ranges_.end() && range->second <= position;
}

std::optional<absl::Status> CommitQueue::OutcomeOf(uint64_t position) const {
  if (position <= decided_) return WasRefused(position) ? refusal_ : absl::OkStatus();
  if (!failure_.ok()) return failure_;
  if (!refused_.empty()) return refusal_;
  return std::nullopt;
}

void CommitQueue::CheckAppended(std::string_view call, uint64_t position) const {
  if (position <= appended_) return;
  Fatal(Concat(ledger_, ": ", call, "(", position, "), but only ", appended_, " were appended"));
}

uint64_t CommitQueue::Append(LedgerRecord record) {
  uint64_t position = 0;
  {
    const MutexLock own(mutex_);
    while (queue_.size() >= max_queued_ && failure_.ok() && refused_.empty()) space_.Wait(mutex_);
    if (!failure_.ok()) return ++appended_;
    if (!refused_.empty()) {
      refused_.push_back(std::move(record));
      return ++appended_;
    }
    queue_.push_back(std::move(record));  // Before it has a position: this may throw.
    position = ++appended_;
    // The writer looks at the queue before it sleeps, so it sleeps only on an empty one.
    if (queue_.size() > 1) return position;
  }
  work_.NotifyOne();
  return position;
}

absl::Status CommitQueue::AwaitDurable(uint64_t position) {
  const MutexLock own(mutex_);
  CheckAppended("AwaitDurable", position);
  while (true) {
    if (std::optional<absl::Status> outcome = OutcomeOf(position)) return *std::move(outcome);
    DecidedFor(position).Wait(mutex_);
  }
}

void CommitQueue::NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) {
  std::optional<absl::Status> outcome;
  {
    const MutexLock own(mutex_);
    CheckAppended("NotifyDurable", position);
    outcome = OutcomeOf(position);
    if (!outcome.has_value()) {
      notifier_.Add(position, std::move(done));
      return;
    }
  }
  done(*std::move(outcome));
}

absl::Status CommitQueue::Health() const {
  const MutexLock own(mutex_);
  if (!failure_.ok()) return failure_;
  return refused_.empty() ? absl::OkStatus() : refusal_;
}

size_t CommitQueue::size() const {
  const MutexLock own(mutex_);
  return queue_.size();
}

bool CommitQueue::Take(Batch& batch) {
  batch.records.clear();
  {
    const MutexLock own(mutex_);
    while (queue_.empty() && !closing_) work_.Wait(mutex_);
    if (queue_.empty()) return false;
    batch.first_row = flight_end_ + 1 - refused_rows_;
    const auto end = queue_.begin() + static_cast<ptrdiff_t>(std::min(queue_.size(), max_batch_));
    batch.records.assign(std::move_iterator(queue_.begin()), std::move_iterator(end));
    queue_.erase(queue_.begin(), end);
    flight_end_ += batch.records.size();
    ++flight_;
  }
  space_.NotifyAll();
  return true;
}

void CommitQueue::Written() {
  const MutexLock own(mutex_);
  decided_ = flight_end_;
  notifier_.SetOutcome(decided_, absl::OkStatus());
  CrashPoint("writer: callbacks invoked, before the waiters");
  decided_changed_[flight_ % 2].NotifyAll();
}

void CommitQueue::Refused(Batch& batch, absl::Status why) {
  const MutexLock own(mutex_);
  refusal_ = std::move(why);
  refused_ = std::move(batch.records);
  refused_.insert(refused_.end(), std::move_iterator(queue_.begin()), std::move_iterator(queue_.end()));
  queue_.clear();
  flight_end_ = decided_;
  notifier_.SetOutcome(appended_, refusal_);
  WakeAll();
}

std::vector<LedgerRecord> CommitQueue::TakeRefused() {
  const MutexLock own(mutex_);
  if (refused_.empty()) return {};
  // One range with that before it, where nothing was written in between.
  const auto before = refused_ranges_.find(decided_);
  const bool extends = before != refused_ranges_.end();
  refused_ranges_.emplace(appended_, extends ? before->second : decided_ + 1);  // First: this may throw.
  if (extends) refused_ranges_.erase(before);
  refused_rows_ += refused_.size();
  decided_ = flight_end_ = appended_;
  return std::exchange(refused_, {});
}

void CommitQueue::Failed(absl::Status why) {
  const MutexLock own(mutex_);
  failure_ = std::move(why);
  queue_.clear();
  notifier_.SetOutcome(appended_, failure_);
  WakeAll();
}

void CommitQueue::WakeAll() {
  for (CondVar& changed : decided_changed_) changed.NotifyAll();
  space_.NotifyAll();
}

void CommitQueue::Close() {
  {
    const MutexLock own(mutex_);
    closing_ = true;
  }
  work_.NotifyOne();
}

}  // namespace stockade::inventory_internal
