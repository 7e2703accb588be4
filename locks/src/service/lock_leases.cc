#include <algorithm>
#include <list>
#include <ranges>
#include <utility>

#include "service_core.h"
#include "stockade/locks/acquire_all.h"

namespace stockade {
namespace {

// Passes one member's loss on. The source is copied first: what it tells may destroy the leases, and this with them.
struct PassOn {
  std::stop_source lost;
  void operator()() const {
    std::stop_source source = lost;
    source.request_stop();
  }
};

}  // namespace

// Invariants: `lost` is requested by members' callbacks only, which none of them runs once it has been released: so it
// is silent once all have been.
struct LockLeases::State {
  explicit State(std::vector<LockLease> members) : leases(std::move(members)) {
    for (const LockLease& lease : leases) relays.emplace_back(lease.lost(), PassOn{lost});
  }
  // Backwards, as they were acquired forwards; a vector would do it the other way.
  ~State() {
    while (!leases.empty()) leases.pop_back();
  }

  std::vector<LockLease> leases;
  std::stop_source lost;
  std::list<std::stop_callback<PassOn>> relays;  // A list: they cannot be moved.
};

LockLeases::LockLeases() = default;
LockLeases::LockLeases(std::vector<LockLease> leases) : state_(std::make_unique<State>(std::move(leases))) {}
LockLeases::~LockLeases() = default;
LockLeases::LockLeases(LockLeases&&) noexcept = default;
LockLeases& LockLeases::operator=(LockLeases&&) noexcept = default;

bool LockLeases::valid() const {
  return state_ != nullptr && !state_->leases.empty() &&
         std::all_of(state_->leases.begin(), state_->leases.end(),
                     [](const LockLease& lease) { return lease.valid(); });
}

std::stop_token LockLeases::lost() const { return state_ == nullptr ? std::stop_token() : state_->lost.get_token(); }

std::span<const LockLease> LockLeases::leases() const {
  return state_ == nullptr ? std::span<const LockLease>() : std::span<const LockLease>(state_->leases);
}

absl::Status LockLeases::Release() {
  if (state_ == nullptr || state_->leases.empty())
    return absl::FailedPreconditionError("there are no leases to release");
  std::vector<LockLease*> last_first;
  for (LockLease& lease : state_->leases | std::views::reverse) last_first.push_back(&lease);
  return locks_internal::ServiceCore::ReleaseMany(last_first);
}

}  // namespace stockade
