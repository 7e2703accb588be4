#include "cache/schedules/model.h"

#include <cmath>

namespace stockade::testing {
namespace {

using Kind = Outcome::Kind;
using Time = KeyState::Time;

int64_t Add(int64_t time, int64_t span) {
  int64_t sum = 0;
  if (time == Scheduler::kNever || span == Scheduler::kNever) return Scheduler::kNever;
  return __builtin_add_overflow(time, span, &sum) ? Scheduler::kNever : sum;
}
Time Add(Time time, int64_t span) {
  return {.low = time.low == KeyState::kPast ? KeyState::kPast : Add(time.low, span), .high = Add(time.high, span)};
}

// The part of `span`, and one nanosecond less: the library rounds as it likes.
int64_t Share(int64_t span, double share) {
  if (span == Scheduler::kNever) return span;
  return static_cast<int64_t>(std::floor(static_cast<double>(span) * share)) - 1;
}

Time StaleUntil(const Rules& rules, const KeyState& state) {
  return state.stored.kind == Kind::kValue ? Add(state.fresh_until, rules.stale_if_error) : state.fresh_until;
}

bool Stored(const KeyState& state) { return state.stored.kind != Kind::kNone; }
bool MustBeFresh(const KeyState& state, int64_t until) { return Stored(state) && state.fresh_until.low > until; }
bool MayBeFresh(const KeyState& state, int64_t from) { return Stored(state) && state.fresh_until.high > from; }
Time RevalidateUntil(const Rules& rules, const KeyState& state) {
  if (state.stored.kind != Kind::kValue) return state.fresh_until;
  return Add(state.fresh_until, rules.stale_while_revalidate);
}

// Served without a load that is waited for, though it may have expired.
bool MustBeServed(const Rules& rules, const KeyState& state, int64_t until) {
  if (MustBeFresh(state, until)) return true;
  if (state.stored.kind != Kind::kValue) return false;
  return RevalidateUntil(rules, state).low > until ||
         (StaleUntil(rules, state).low > until && state.retry_at.low > until);
}
bool MayBeServed(const Rules& rules, const KeyState& state, int64_t from) {
  if (MayBeFresh(state, from)) return true;
  if (state.stored.kind != Kind::kValue) return false;
  return RevalidateUntil(rules, state).high > from ||
         (StaleUntil(rules, state).high > from && state.retry_at.high > from);
}

// In the background, without a Refresh().
bool MayBeDue(const Rules& rules, const KeyState& state, int64_t now) {
  if (state.stored.kind != Kind::kValue || state.retry_at.low > now) return false;
  const bool ahead = rules.refresh_ahead > 0 && state.refresh_from <= now;
  return ahead || state.fresh_until.low <= now;
}

void Forget(KeyState& state) {
  state.stored = {};
  state.tags = 0;
  state.fresh_until = state.retry_at = {};
  state.refresh_from = KeyState::kPast;
}

void StopCounting(KeyState& state) {
  state.current = -1;
  state.joined = {};
  state.voided = false;
}

// `now`: when its times were drawn.
void Store(const Rules& rules, Outcome outcome, std::optional<int64_t> own_ttl, unsigned tags, Time now,
           KeyState& state) {
  Forget(state);
  const bool absent = outcome.kind == Kind::kAbsent;
  const int64_t ttl = own_ttl.value_or(absent ? rules.negative_ttl : rules.ttl);
  if (ttl <= 0) return;
  const bool jitters = !absent && rules.ttl_jitter > 0;
  const int64_t shortest = jitters ? Share(ttl, 1 - rules.ttl_jitter) : ttl;
  state.stored = outcome;
  state.tags = tags;
  state.fresh_until = {.low = Add(now.low, shortest), .high = Add(now.high, ttl)};
  if (!absent && rules.refresh_ahead > 0) state.refresh_from = Add(now.low, Share(shortest, rules.refresh_ahead));
}

bool Allowed(const KeyState& state, Outcome answer) {
  return state.joined.kind == Kind::kNone || state.joined == answer;
}

// The call waits for the current load and is answered what that comes to.
bool Join(const Rules& rules, const Call& call, const Load* current, KeyState& state) {
  if (current == nullptr || state.voided || call.in_own_loader) return false;
  if (MustBeServed(rules, state, call.end.time)) return false;
  const bool times_out = Add(current->cause.time, rules.load_hard_timeout) <= current->ended.time;
  const bool failed = current->outcome.kind == Kind::kError || times_out;
  const int64_t failed_at = times_out ? Add(current->cause.time, rules.load_hard_timeout) : current->end.time;
  const bool stands_in = failed && call.outcome == state.stored && call.outcome.kind == Kind::kValue &&
                         StaleUntil(rules, state).high > failed_at;
  const bool late = times_out && call.outcome.kind == Kind::kDeadline;
  if (call.outcome != current->outcome && !stands_in && !late) return false;
  if (!Allowed(state, call.outcome)) return false;
  state.joined = call.outcome;
  return true;
}

// A load that the call waited for, and that could not begin, may have timed out.
bool MayGiveUp(const Rules& rules, const Call& call) {
  return call.end.time >= Add(Scheduler::kStart, rules.load_hard_timeout);
}

bool AnswerGet(const Rules& rules, const Call& call, const Load* current, KeyState& state) {
  const bool must_hit = MustBeServed(rules, state, call.end.time);
  switch (call.outcome.kind) {
    case Kind::kValue:
      if (call.outcome == state.put && call.begin.step < state.put_ended && !call.in_own_loader) return true;
      [[fallthrough]];
    case Kind::kAbsent:
      if (call.outcome == state.stored && MayBeServed(rules, state, call.begin.time)) return true;
      if (call.outcome == state.stored && MayGiveUp(rules, call) && StaleUntil(rules, state).high > call.begin.time) {
        return true;
      }
      return Join(rules, call, current, state);
    case Kind::kError: return Join(rules, call, current, state);
    case Kind::kDeadline:
      if (must_hit) return false;
      if (call.end.time >= Add(call.begin.time, call.timeout) || MayGiveUp(rules, call)) return true;
      return Join(rules, call, current, state);
    case Kind::kCircle: return !must_hit && (call.in_own_loader || call.circle_possible);
    default: return false;
  }
}

// The current load brought nothing but `answer`, at `now`.
bool Fail(const Rules& rules, Outcome answer, Time now, KeyState& state) {
  const bool value = state.stored.kind == Kind::kValue;
  const Time stale_until = StaleUntil(rules, state);
  const Time revalidate_until = RevalidateUntil(rules, state);
  const bool may_stand_in = value && stale_until.high > now.low;
  const bool must_stand_in = value && stale_until.low > now.high;
  if (!(may_stand_in && Allowed(state, state.stored)) && !(!must_stand_in && Allowed(state, answer))) return false;
  const Time retry_at = Add(now, rules.retry_backoff);
  if (may_stand_in || (value && revalidate_until.high > now.low)) state.retry_at.high = retry_at.high;
  if (must_stand_in || (value && revalidate_until.low > now.high)) state.retry_at.low = retry_at.low;
  StopCounting(state);
  state.put = {};
  return true;
}

}  // namespace

bool MayBeOver(const Rules& rules, const KeyState& state, int64_t now) {
  return Stored(state) && state.fresh_until.low <= now && RevalidateUntil(rules, state).low <= now &&
         StaleUntil(rules, state).low <= now;
}

bool BeginLoad(const Rules& rules, const Load& load, int index, KeyState& state) {
  const int64_t now = load.begin.time;
  if (state.current != -1) return false;
  const bool background = load.refresh && (state.refresh || MayBeDue(rules, state, now));
  if (MustBeServed(rules, state, now) && !background) return false;
  state.current = index;
  state.refresh = false;
  state.put = {};
  return true;
}

bool TimeOut(const Rules& rules, const Load& load, Time now, KeyState& state) {
  if (Add(load.cause.time, rules.load_hard_timeout) > now.high) return false;
  return Fail(rules, {Kind::kDeadline, 0}, now, state);
}

bool EndLoad(const Rules& rules, const Load& load, int index, KeyState& state) {
  if (state.current != index) {
    state.put = {};
    return true;
  }
  const Time now{.low = load.end.time, .high = load.ended.time};
  // Too late for sure: the loader began at the latest when it was entered.
  if (Add(load.begin.time, rules.load_hard_timeout) <= load.end.time) return TimeOut(rules, load, now, state);
  if (load.outcome.kind == Kind::kError) return Fail(rules, load.outcome, now, state);
  if (!Allowed(state, load.outcome)) return false;
  if (state.voided) {
    Forget(state);
  } else {
    Store(rules, load.outcome, load.ttl, load.tags, now, state);
  }
  StopCounting(state);
  state.put = {};
  return true;
}

void Evict(KeyState& state) {
  Forget(state);
  state.put = {};
}

bool Answer(const Rules& rules, const Call& call, const Load* current, KeyState& state) {
  const bool fresh_value = state.stored.kind == Kind::kValue && MustBeFresh(state, call.end.time);
  switch (call.kind) {
    case CallKind::kGet: return AnswerGet(rules, call, current, state);
    case CallKind::kGetIfPresent:
      if (call.outcome.kind == Kind::kNothing) return !fresh_value;
      return call.outcome == state.stored && MayBeFresh(state, call.begin.time);
    case CallKind::kPeek:  // Expired or not. What is there may be removed at any time once it has expired.
      if (call.outcome.kind == Kind::kNothing) return !MustBeFresh(state, call.end.time);
      if (call.outcome.kind == Kind::kAbsent) return state.stored.kind == Kind::kAbsent;
      return call.outcome == state.stored;
    case CallKind::kPut: {
      const Outcome value{Kind::kValue, call.id};
      if (!Allowed(state, value)) return false;
      Store(rules, value, call.ttl, call.tags, {.low = call.begin.time, .high = call.end.time}, state);
      StopCounting(state);
      state.refresh = false;
      state.put = value;
      state.put_ended = call.end.step;
      return true;
    }
    case CallKind::kRefresh: state.refresh = state.refresh || current == nullptr; return true;
    case CallKind::kInvalidateTag:
      if ((state.tags & call.tags) == 0) {
        const bool fails = current != nullptr && current->outcome.kind == Kind::kError;
        state.voided = state.voided || (current != nullptr && !fails && (current->tags & call.tags) != 0);
        state.put = {};
        return true;
      }
      [[fallthrough]];
    case CallKind::kInvalidate:
    case CallKind::kInvalidateAll:
      if (current != nullptr && !Allowed(state, current->outcome)) return false;
      Forget(state);
      StopCounting(state);
      state.put = {};
      return true;
  }
  return false;
}

}  // namespace stockade::testing
