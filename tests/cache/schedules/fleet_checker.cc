#include <algorithm>

#include "cache/schedules/fleet.h"
#include "stockade/base/strings.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;
using Invalidation = FleetHistory::Invalidation;
using Lookup = FleetHistory::Lookup;
using Made = FleetHistory::Made;
using Kind = Outcome::Kind;

bool Concerns(const Invalidation& invalidation, const Made& made) {
  switch (invalidation.scope) {
    case FleetHistory::Scope::kKey: return invalidation.key == made.key;
    case FleetHistory::Scope::kTag: return (invalidation.tags & made.tags) != 0;
    case FleetHistory::Scope::kAll: return true;
  }
  return false;
}

class FleetCheck {
 public:
  FleetCheck(const FleetRules& rules, const FleetHistory& history) : rules_(rules), history_(history) {}

  // The rule that the lookup breaks; null: none.
  const char* Wrong(const Lookup& lookup) const {
    switch (lookup.outcome.kind) {
      case Kind::kNothing: return nullptr;
      case Kind::kDeadline: return lookup.timed ? nullptr : "deadline";
      case Kind::kCircle: return lookup.in_loader ? nullptr : "circle";
      case Kind::kValue:
      case Kind::kAbsent:
      case Kind::kError: break;
      default: return lookup.end == FleetHistory::kNotYet ? "made (no answer)" : "made (another status)";
    }
    const auto found = history_.made.find(lookup.outcome.id);
    if (found == history_.made.end()) return "made";
    const Made& made = found->second;
    if (made.key != lookup.key || made.made > lookup.end) return "made";
    const bool later = lookup.begin.step > made.ended;  // The lookup began when its load or its Put was over.
    if (later && (made.error || made.as_of == FleetHistory::kNotYet)) return "away";
    const bool over = later && !made.put && !made.stored && lookup.begin.time >= made.began.time + rules_.max_staleness;
    if (over && !rules_.stale_if_error) return "away";
    const int64_t as_of = made.put && !later ? made.ended : made.as_of;
    for (const Invalidation& invalidation : history_.invalidations) {
      if (!Concerns(invalidation, made) || as_of >= invalidation.begin) continue;
      const bool own = invalidation.process == lookup.process && invalidation.end < lookup.begin.step;
      if (own && !(made.put && made.ended >= invalidation.begin)) return "P3";
      if (invalidation.accepted.step >= lookup.begin.step) continue;
      const bool old = invalidation.accepted.time + rules_.max_staleness <= lookup.begin.time;
      if (old && !rules_.stale_if_error) return "P2";
      if (Shown(invalidation, lookup)) return "shown";
    }
    return nullptr;
  }

  // The invalidation that a stored value is older than; null: none.
  const Invalidation* Outdates(const FleetHistory::Store& store) const {
    const auto found = history_.made.find(store.id);
    if (found == history_.made.end()) return nullptr;
    const auto older = std::find_if(
        history_.invalidations.begin(), history_.invalidations.end(), [&](const Invalidation& invalidation) {
          return invalidation.accepted.step < store.step && Concerns(invalidation, found->second) &&
                 found->second.as_of < invalidation.begin;
        });
    return older == history_.invalidations.end() ? nullptr : &*older;
  }

 private:
  bool Shown(const Invalidation& invalidation, const Lookup& lookup) const {
    return std::any_of(history_.heartbeats.begin(), history_.heartbeats.end(),
                       [&](const FleetHistory::Heartbeat& heartbeat) {
                         return heartbeat.process == lookup.process && heartbeat.ended < lookup.begin.step &&
                                invalidation.accepted.step < heartbeat.shown;
                       });
  }

  const FleetRules& rules_;
  const FleetHistory& history_;
};

}  // namespace

std::string CheckFleet(const FleetRules& rules, const FleetHistory& history) {
  const FleetCheck check(rules, history);
  for (const FleetHistory::Store& store : history.stores) {
    if (const Invalidation* const older = check.Outdates(store)) {
      return Concat("P1: the tier stored ", store.id, " at event ", store.step,
                    ", which is older than the invalidation of event ", older->begin);
    }
  }
  for (const Lookup& lookup : history.lookups) {
    if (const char* const rule = check.Wrong(lookup)) {
      return Concat(rule, ": the answer ", lookup.outcome.id, " of the lookup of key ", lookup.key, " by process ",
                    lookup.process, ", events ", lookup.begin.step, " to ", lookup.end);
    }
  }
  for (const auto& [key, count] : history.counts) {
    if (count.loads > count.allowed) {
      return Concat("count: ", count.loads, " loads of key ", key, ", and reasons for ", count.allowed);
    }
  }
  return {};
}

}  // namespace stockade::testing
