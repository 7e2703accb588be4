#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_OUTCOME_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_OUTCOME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cache/schedules/history.h"
#include "cache/schedules/stepped_cache.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

inline constexpr int kTags = 2;

// Errors and absences carry their id behind a mark.
inline std::string ErrorText(int64_t id) { return base_internal::Concat("#", id); }

inline SteppedCache::Answer AnswerOf(Outcome outcome) {
  if (outcome.kind == Outcome::Kind::kValue) return outcome.id;
  if (outcome.kind == Outcome::Kind::kAbsent) return absl::NotFoundError(ErrorText(outcome.id));
  return absl::UnavailableError(ErrorText(outcome.id));
}

inline Outcome OutcomeOf(const SteppedCache::Answer& answer) {
  using Kind = Outcome::Kind;
  if (answer.ok()) return {Kind::kValue, *answer};
  const absl::string_view text = answer.status().message();
  const size_t mark = text.rfind('#');
  const int64_t id = mark == absl::string_view::npos ? -1 : std::stoll(std::string(text.substr(mark + 1)));
  switch (answer.status().code()) {
    case absl::StatusCode::kNotFound: return {Kind::kAbsent, id};
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kInternal: return {Kind::kError, id};
    case absl::StatusCode::kDeadlineExceeded: return {Kind::kDeadline, 0};
    case absl::StatusCode::kFailedPrecondition: return {Kind::kCircle, 0};
    default: return {Kind::kUnexpected, 0};
  }
}

// The names of a set of tags, in which each has a bit.
inline std::vector<std::string> TagNames(unsigned tags) {
  std::vector<std::string> names;
  for (int tag = 0; tag < kTags; ++tag) {
    if ((tags >> tag & 1) != 0) names.push_back(base_internal::Concat("tag", tag));
  }
  return names;
}

inline absl::Duration SpanOf(int64_t span) {
  return span == Scheduler::kNever ? absl::InfiniteDuration() : absl::Nanoseconds(span);
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_OUTCOME_H_
