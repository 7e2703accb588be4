#include "fleet_sold_out.h"

#include <algorithm>
#include <utility>

#include "fleet_rules.h"

namespace stockade::inventory_internal {
namespace {

// Clocks of processes may run at rates that differ by 4 %, and threads are late.
constexpr double kWaitInLeases = 1.1;
// After work that was not done.
constexpr absl::Duration kPause = absl::Milliseconds(100);
// SKUs that are moved, and whose leases are renewed, before calls get their turn again.
constexpr size_t kMostMoves = 16;
constexpr size_t kMostRenewals = 1000;
// A SKU that no request asks for is forgotten after this many leases.
constexpr int kIdleLeases = 16;

absl::Duration Bounded(absl::Duration lease) { return std::min(lease, FleetSoldOut::kLongestLease); }

}  // namespace

std::optional<int64_t> FleetSoldOut::Refuses(uint64_t sku, uint64_t request_print, bool has_buyer) const {
  const ReadGuard lock(leases_mutex_);
  const auto found = skus_.find(sku);
  if (found == skus_.end()) return std::nullopt;
  const Sku& known = *found->second;
  if (!known.asked.load(std::memory_order_relaxed)) known.asked.store(true, std::memory_order_relaxed);
  if (clock_.Now() >= known.lease_end || (known.limited && !has_buyer)) return std::nullopt;
  if (FleetRules::KnowsIds() && (known.ids == nullptr || known.ids->contains(request_print))) return std::nullopt;
  return known.unsold;
}

bool FleetSoldOut::Note(uint64_t sku, const FleetLatch& latch, int64_t unsold, bool limited, Instant sent) {
  if (latch.mode == FleetMode::kDraining) {
    NoteLatchEnded(sku, latch.epoch);
    return NoteLimbo(sku, latch);
  }
  EndLimbo(sku, latch.mode == FleetMode::kOpen ? latch.epoch : latch.epoch - 1);
  if (latch.mode == FleetMode::kOpen) {
    NoteLatchEnded(sku, latch.epoch);
    return false;
  }
  const Instant now = clock_.Now();
  const absl::Duration lease = Bounded(latch.lease);
  if (!FleetRules::LeaseBeginsWhenSent()) sent = now;
  if (sent + lease <= now) return false;
  {
    // Repeats of requests look while the lease is good.
    const ReadGuard lock(leases_mutex_);
    const auto found = skus_.find(sku);
    if (found != skus_.end() && found->second->epoch == latch.epoch && sent < found->second->sent + lease / 8) {
      return false;
    }
  }
  const WriteGuard lock(leases_mutex_);
  std::unique_ptr<Sku>& known = skus_[sku];
  if (known == nullptr) known = std::make_unique<Sku>();
  leased_.store(skus_.size(), std::memory_order_relaxed);
  if (known->epoch > latch.epoch || known->sent >= sent) return false;
  if (known->epoch != latch.epoch) {
    SetIds(*known, nullptr);
    known->too_many_ids = false;
  }
  known->epoch = latch.epoch;
  known->unsold = unsold;
  known->limited = limited;
  known->sent = sent;
  known->lease_end = sent + lease;
  known->asked.store(false, std::memory_order_relaxed);
  known->next_work = known->ids == nullptr && !known->too_many_ids ? now : sent + lease / 2;
  return Schedule(known->next_work);
}

void FleetSoldOut::NoteLatchEnded(uint64_t sku, int64_t epoch) {
  {
    const ReadGuard lock(leases_mutex_);
    if (!skus_.contains(sku)) return;
  }
  const WriteGuard lock(leases_mutex_);
  const auto found = skus_.find(sku);
  if (found == skus_.end() || found->second->epoch > epoch) return;
  SetIds(*found->second, nullptr);
  skus_.erase(found);
  leased_.store(skus_.size(), std::memory_order_relaxed);
}

absl::Duration FleetSoldOut::WaitOf(const FleetLatch& latch) { return Bounded(latch.lease) * kWaitInLeases; }

bool FleetSoldOut::NoteLimbo(uint64_t sku, const FleetLatch& latch) {
  const Instant now = clock_.Now();
  const Instant due = FleetRules::LimboWaits() ? now + WaitOf(latch) : now;
  {
    const MutexLock lock(mutex_);
    Limbo& limbo = limbo_[sku];
    if (limbo.epoch >= latch.epoch) {
      if (limbo.epoch == latch.epoch) limbo.units = latch.limbo;
      return false;
    }
    limbo = {.epoch = latch.epoch, .units = latch.limbo, .due = due};
  }
  EndWaits();  // An earlier epoch is over.
  return Schedule(due);
}

void FleetSoldOut::EndLimbo(uint64_t sku, int64_t epoch) {
  {
    const MutexLock lock(mutex_);
    const auto found = limbo_.find(sku);
    if (found == limbo_.end() || found->second.epoch > epoch) return;
    limbo_.erase(found);
  }
  EndWaits();
}

void FleetSoldOut::NoteMoved(const Move& move) { EndLimbo(move.sku, move.epoch); }

void FleetSoldOut::NotifyMoved(const Move& move, Instant deadline, absl::AnyInvocable<void()> done) {
  {
    const MutexLock lock(mutex_);
    waits_.push_back({.move = move, .deadline = deadline, .done = std::move(done)});
    next_work_ = std::min(next_work_, deadline);
  }
  EndWaits();
}

void FleetSoldOut::EndWaits(bool all) {
  std::vector<Wait> over;
  {
    const MutexLock lock(mutex_);
    if (waits_.empty()) return;
    const Instant now = clock_.Now();
    std::erase_if(waits_, [&](Wait& wait) STOCKADE_REQUIRES(mutex_) {
      const auto found = limbo_.find(wait.move.sku);
      const bool is_moved = found == limbo_.end() || found->second.epoch != wait.move.epoch;
      if (!all && !is_moved && now < wait.deadline) return false;
      over.push_back(std::move(wait));
      return true;
    });
  }
  for (Wait& wait : over) wait.done();
}

bool FleetSoldOut::Schedule(Instant when) {
  const MutexLock lock(mutex_);
  if (when >= next_work_) return false;
  next_work_ = when;
  return true;
}

Instant FleetSoldOut::NextWork() const {
  const MutexLock lock(mutex_);
  return next_work_;
}

FleetSoldOut::Work FleetSoldOut::TakeWork() {
  const Instant now = clock_.Now();
  Work work;
  const WriteGuard lock(leases_mutex_);
  const MutexLock limbo_lock(mutex_);
  next_work_ = Instant::InfiniteFuture();
  for (auto& [sku, limbo] : limbo_) {
    if (limbo.due <= now && work.moves.size() < kMostMoves) {
      work.moves.push_back({.sku = sku, .epoch = limbo.epoch});
      limbo.due = now + kPause;
    }
    next_work_ = std::min(next_work_, limbo.due);
  }
  for (const Wait& wait : waits_) next_work_ = std::min(next_work_, wait.deadline);
  for (auto entry = skus_.begin(); entry != skus_.end();) {
    Sku& sku = *entry->second;
    const absl::Duration lease = sku.lease_end - sku.sent;
    // Those that are nearly due, too, so that one query renews many.
    if (now + lease / 8 >= sku.next_work && work.renewals.size() < kMostRenewals) {
      if (now >= sku.lease_end + lease * kIdleLeases) {
        SetIds(sku, nullptr);
        skus_.erase(entry++);
        continue;
      }
      sku.next_work = now + lease / 4;
      if (sku.ids == nullptr && !sku.too_many_ids && now < sku.lease_end) {
        work.unknown_ids.push_back({.sku = entry->first, .epoch = sku.epoch});
        sku.next_work = now + std::min(kPause, lease / 4);
      } else if (sku.asked.load(std::memory_order_relaxed) && !sku.too_many_ids) {
        work.renewals.push_back(entry->first);
      }
    }
    next_work_ = std::min(next_work_, sku.next_work);
    ++entry;
  }
  leased_.store(skus_.size(), std::memory_order_relaxed);
  return work;
}

void FleetSoldOut::SetIds(Sku& sku, std::unique_ptr<const Ids> ids) {
  known_ids_ += ids == nullptr ? 0 : ids->size();
  known_ids_ -= sku.ids == nullptr ? 0 : sku.ids->size();
  sku.ids = std::move(ids);
}

size_t FleetSoldOut::ids_left() const {
  const ReadGuard lock(leases_mutex_);
  return max_ids_ - std::min(max_ids_, known_ids_);
}

bool FleetSoldOut::WantsIds(const Move& of) const {
  const ReadGuard lock(leases_mutex_);
  const auto found = skus_.find(of.sku);
  return found != skus_.end() && found->second->epoch == of.epoch && found->second->ids == nullptr &&
         !found->second->too_many_ids;
}

void FleetSoldOut::NoteIds(const Move& of, std::optional<Ids> ids) {
  auto loaded = ids.has_value() ? std::make_unique<const Ids>(*std::move(ids)) : nullptr;
  const WriteGuard lock(leases_mutex_);
  const auto found = skus_.find(of.sku);
  if (found == skus_.end() || found->second->epoch != of.epoch || found->second->ids != nullptr) return;
  Sku& sku = *found->second;
  sku.too_many_ids = loaded == nullptr;
  SetIds(sku, std::move(loaded));
  sku.next_work = sku.sent + (sku.lease_end - sku.sent) / 2;
}

FleetSoldOut::Figures FleetSoldOut::Read() const {
  const Instant now = clock_.Now();
  Figures figures;
  const ReadGuard lock(leases_mutex_);
  for (const auto& [id, sku] : skus_) {
    if (now >= sku->lease_end) continue;
    ++figures.leased_skus;
    figures.oldest_lease = std::max(figures.oldest_lease, now - sku->sent);
  }
  const MutexLock limbo_lock(mutex_);
  for (const auto& [sku, limbo] : limbo_) figures.limbo_units += limbo.units;
  return figures;
}

}  // namespace stockade::inventory_internal
