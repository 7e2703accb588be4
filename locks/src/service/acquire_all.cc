#include "stockade/locks/acquire_all.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

using base_internal::AbslView;
using base_internal::Concat;

std::string Described(const LockTarget& target) {
  return Concat("lock \"", absl::CEscape(AbslView(target.name)), "\" of ", target.service->id());
}

auto Place(const LockTarget& target) { return std::tuple(target.service->id(), std::string_view(target.name)); }

// In the order in which all callers acquire them, each once. Services of one id share their locks: the first one acts.
std::vector<LockTarget> InOrder(std::span<const LockTarget> targets) {
  std::vector<LockTarget> ordered(targets.begin(), targets.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const LockTarget& a, const LockTarget& b) { return Place(a) < Place(b); });
  const auto same = [](const LockTarget& a, const LockTarget& b) { return Place(a) == Place(b); };
  ordered.erase(std::unique(ordered.begin(), ordered.end(), same), ordered.end());
  return ordered;
}

absl::Status Check(std::span<const LockTarget> targets) {
  if (targets.empty()) return absl::InvalidArgumentError("AcquireAll() has no targets");
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].service != nullptr) continue;
    return absl::InvalidArgumentError(
        Concat("target ", i, " of AcquireAll(), \"", absl::CEscape(AbslView(targets[i].name)), "\", has no service"));
  }
  return absl::OkStatus();
}

// A lease may be over, or lost, by the time that the last of them has been waited for.
absl::Status AllHeld(std::span<const LockTarget> targets, std::span<LockLease> held) {
  for (size_t i = 0; i < held.size(); ++i) {
    if (held[i].valid()) continue;
    return absl::DeadlineExceededError(
        Concat(Described(targets[i]), " was lost while the others were acquired: ", held[i].Release().message()));
  }
  return absl::OkStatus();
}

// What has been acquired by then is released by the caller, backwards.
absl::Status AcquireInto(std::vector<LockLease>& held, std::span<const LockTarget> targets, AcquireOptions options) {
  const Instant deadline = Clock::System()->Now() + options.wait;
  for (const LockTarget& target : targets) {
    absl::StatusOr<LockLease> lease = target.service->Acquire(target.name, options);
    if (!lease.ok()) {
      return absl::Status(lease.status().code(), Concat(Described(target), ": ", lease.status().message()));
    }
    held.push_back(*std::move(lease));
    options.wait = deadline - Clock::System()->Now();
  }
  return AllHeld(targets, held);
}

}  // namespace

absl::StatusOr<LockLeases> AcquireAll(std::span<const LockTarget> targets, AcquireOptions options) {
  if (absl::Status status = Check(targets); !status.ok()) return status;
  std::vector<LockLease> held;
  const absl::Status status = AcquireInto(held, InOrder(targets), std::move(options));
  LockLeases leases(std::move(held));
  if (!status.ok()) return status;
  return leases;
}

absl::StatusOr<LockLeases> AcquireAll(LockService& service, std::span<const std::string> names,
                                      AcquireOptions options) {
  std::vector<LockTarget> targets;
  targets.reserve(names.size());
  for (const std::string& name : names) targets.push_back({.service = &service, .name = name});
  return AcquireAll(targets, std::move(options));
}

}  // namespace stockade
