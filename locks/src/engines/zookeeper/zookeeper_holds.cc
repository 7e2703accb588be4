#include "zookeeper_holds.h"

#include <algorithm>

#include "../../service/shown_lock.h"
#include "stockade/base/strings.h"
#include "zookeeper_nodes.h"

namespace stockade::locks_internal {
namespace {

using State = ZooKeeperHold::State;

}  // namespace

ZooKeeperHolds::ZooKeeperHolds(Clock* clock, std::string root, std::string client, absl::Duration place_life,
                               std::shared_ptr<ZooKeeperJanitor> janitor)
    : clock_(clock),
      root_(std::move(root)),
      client_(std::move(client)),
      place_life_(place_life),
      janitor_(std::move(janitor)),
      expiry_(clock) {}

std::string ZooKeeperHolds::DirectoryOf(std::string_view lock) const { return Concat(root_, "/", LockNode(lock)); }

ZooKeeperHolds::Begun ZooKeeperHolds::Begin(LockTry& step, const std::shared_ptr<ZooKeeperSession>& session,
                                            bool peeked) {
  const HoldKey& key = step.hold;
  const MutexLock lock(mutex_);
  HoldPtr hold;
  if (const auto found = holds_.find(key); found != holds_.end()) hold = found->second;
  if (hold != nullptr && hold->session != session) {
    Erase(hold);  // Gone with its session.
    hold = nullptr;
  }
  if (hold != nullptr) {
    if (step.sequence < hold->newest) {
      step.status = absl::AbortedError(Concat(ShownLock(key.name), ": step ", step.sequence, " arrived after step ",
                                              hold->newest, " of owner ", key.owner));
      return {};
    }
    hold->newest = step.sequence;
    if (hold->state == State::kHeld && step.sequence == hold->entered) {  // Answered before.
      step.acquired = true;
      step.hold_count = hold->count;
      step.fencing_token = hold->token;
      step.session = session->lease();
      return {};
    }
    // What its owner has lost lends nobody its token.
    const bool over = hold->state == State::kHeld ? step.first : hold->nested && step.outside_write;
    if (over) return {.next = Next::kDiscard, .hold = hold};
    if (hold->state == State::kHeld) return {.next = Next::kReenter, .hold = hold};
    SetDeadline(hold, std::max(hold->deadline, clock_->Now() + place_life_));
    return {.next = hold->state == State::kQueued ? Next::kLook : Next::kRecover, .hold = hold};
  }
  Begun begun;
  if (key.kind == LockKind::kRead && !step.outside_write) {
    if (const HoldPtr write = HeldAs(key, LockKind::kWrite); write != nullptr && write->session == session) {
      begun.next = Next::kNest;
      begun.write = write;
      begun.hold = Add(key, session);
      begun.hold->nested = true;
      // Its own node is younger than waiters that come after it, so its number would be larger than theirs.
      begun.hold->token = write->token;
    }
  }
  if (begun.hold == nullptr) {
    begun.next = step.queue || peeked ? Next::kMake : Next::kPeek;
    if (begun.next == Next::kPeek) return begun;
    begun.hold = Add(key, session);
  }
  begun.hold->newest = step.sequence;
  return begun;
}

ZooKeeperHolds::HoldPtr ZooKeeperHolds::Add(const HoldKey& key, const std::shared_ptr<ZooKeeperSession>& session) {
  auto hold = std::make_shared<ZooKeeperHold>(ZooKeeperHold{.key = key,
                                                            .session = session,
                                                            .directory = DirectoryOf(key.name),
                                                            .prefix = NodePrefix(client_, ++attempts_, key.kind)});
  holds_.emplace(key, hold);
  hold->deadline = clock_->Now() + place_life_;
  deadlines_.emplace(hold->deadline, hold.get());
  WakeAt(hold->deadline);
  return hold;
}

ZooKeeperHolds::HoldPtr ZooKeeperHolds::HeldAs(const HoldKey& key, LockKind kind) const {
  const auto found = holds_.find(HoldKey{.name = key.name, .kind = kind, .owner = key.owner});
  return found != holds_.end() && found->second->state == State::kHeld ? found->second : nullptr;
}

bool ZooKeeperHolds::Has(const HoldPtr& hold) const {
  const auto found = holds_.find(hold->key);
  return found != holds_.end() && found->second == hold;
}

void ZooKeeperHolds::Erase(const HoldPtr& hold) {
  deadlines_.erase({hold->deadline, hold.get()});
  holds_.erase(hold->key);
}

void ZooKeeperHolds::SetDeadline(const HoldPtr& hold, Instant at) {
  if (at == hold->deadline) return;
  deadlines_.erase({hold->deadline, hold.get()});
  hold->deadline = at;
  deadlines_.emplace(at, hold.get());
  WakeAt(at);
}

void ZooKeeperHolds::WakeAt(Instant at) {
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  if (timer_) expiry_.Cancel(*timer_);  // Or it would set another one in its turn, for ever.
  timer_ = expiry_.Schedule(at, [this] { Expire(); });
}

void ZooKeeperHolds::Expire() {
  std::vector<HoldPtr> over;
  {
    const MutexLock lock(mutex_);
    const Instant now = clock_->Now();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      over.push_back(holds_.at(deadlines_.begin()->second->key));
      Erase(over.back());
    }
    wakes_at_ = Instant::InfiniteFuture();
    if (!deadlines_.empty()) WakeAt(deadlines_.begin()->first);
  }
  for (const HoldPtr& hold : over) janitor_->Remove(hold->node(), hold->key, [](bool) {});
}

bool ZooKeeperHolds::Made(const HoldPtr& hold, std::string name, std::optional<int64_t> token) {
  const MutexLock lock(mutex_);
  if (!Has(hold)) return false;
  hold->name = std::move(name);
  if (!hold->token) hold->token = token;
  hold->state = State::kQueued;
  return true;
}

bool ZooKeeperHolds::Queue(const HoldPtr& hold, std::string waits_for) {
  const MutexLock lock(mutex_);
  if (!Has(hold)) return false;
  hold->waits_for = std::move(waits_for);
  return true;
}

bool ZooKeeperHolds::Enter(const HoldPtr& hold, LockTry& step) {
  const MutexLock lock(mutex_);
  const Instant now = clock_->Now();
  if (!Has(hold)) return false;
  const Instant until = now + step.lease;
  // A place's life has nothing to say about a hold's.
  SetDeadline(hold, hold->state == State::kHeld ? std::max(hold->deadline, until) : until);
  hold->state = State::kHeld;
  hold->waits_for.clear();
  hold->entered = step.sequence;
  ++hold->count;
  step.acquired = true;
  step.hold_count = hold->count;
  step.fencing_token = hold->token;
  step.session = hold->session->lease();
  return true;
}

bool ZooKeeperHolds::Renew(const HoldPtr& hold, absl::Duration lease) {
  const MutexLock lock(mutex_);
  if (!Has(hold)) return false;
  SetDeadline(hold, std::max(hold->deadline, clock_->Now() + lease));
  return true;
}

ZooKeeperHolds::HoldPtr ZooKeeperHolds::FindHeld(const HoldKey& key) const {
  const MutexLock lock(mutex_);
  return HeldAs(key, key.kind);
}

bool ZooKeeperHolds::TakeOff(const HoldPtr& hold) {
  const MutexLock lock(mutex_);
  if (!Has(hold)) return false;
  Erase(hold);
  return true;
}

void ZooKeeperHolds::Discard(const HoldPtr& hold, ZooKeeperJanitor::Done done) {
  if (!TakeOff(hold)) return done(false);
  janitor_->Remove(hold->node(), hold->key, std::move(done));
}

void ZooKeeperHolds::Sweep(const std::shared_ptr<ZooKeeperSession>& session) {
  const MutexLock lock(mutex_);
  for (auto at = holds_.begin(); at != holds_.end();) {
    const HoldPtr hold = (at++)->second;
    if (hold->session == session) Erase(hold);
  }
}

std::optional<ZooKeeperNode> ZooKeeperHolds::WaitsFor(const HoldKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = holds_.find(key);
  if (found == holds_.end() || found->second->waits_for.empty()) return std::nullopt;
  ZooKeeperNode node = found->second->node();
  node.name = found->second->waits_for;
  return node;
}

absl::flat_hash_map<std::string, ZooKeeperHolds::HeldNode> ZooKeeperHolds::HeldNodes(std::string_view lock_name) const {
  absl::flat_hash_map<std::string, HeldNode> nodes;
  const MutexLock lock(mutex_);
  for (const auto& [key, hold] : holds_) {
    if (key.name == lock_name && hold->state == State::kHeld) {
      nodes.emplace(hold->name, HeldNode{.owner = key.owner, .count = hold->count, .deadline = hold->deadline});
    }
  }
  return nodes;
}

ZooKeeperHolds::Lowered ZooKeeperHolds::Lower(const LockRelease& release) {
  const HoldKey& key = release.hold;
  const MutexLock lock(mutex_);
  const auto found = holds_.find(key);
  if (found == holds_.end()) return {};
  const HoldPtr hold = found->second;
  if (release.sequence < hold->newest) {
    return {.status = absl::AbortedError(Concat(ShownLock(key.name), ": step ", release.sequence,
                                                " arrived after step ", hold->newest, " of owner ", key.owner))};
  }
  hold->newest = release.sequence;
  const bool held = hold->state == State::kHeld;
  if (held && release.keep > 0) {
    hold->count = release.keep;
    return {.kept = hold, .held = true};
  }
  if (!held && !release.gives_up && !release.repeated) return {};
  Erase(hold);
  return {.free = hold, .held = held};
}

}  // namespace stockade::locks_internal
