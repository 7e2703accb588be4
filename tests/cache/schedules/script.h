#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_SCRIPT_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_SCRIPT_H_

#include <cstdint>
#include <initializer_list>

#include "cache/schedules/checker.h"
#include "cache/schedules/history.h"

namespace stockade::testing {

// A history of key 0, written by hand; each step of it has the time that At() set last.
class Script {
 public:
  Script& At(int64_t time) {
    time_ = time;
    return *this;
  }
  Script& Get(int64_t begin, int64_t end, Outcome answer) {
    return Add({.kind = CallKind::kGet, .begin = {begin, time_}, .end = {end, time_}, .outcome = answer, .ttl = {}});
  }
  Script& TimedGet(int64_t begin, int64_t end, int64_t began_at, int64_t timeout) {
    return Add({.kind = CallKind::kGet,
                .begin = {begin, began_at},
                .end = {end, time_},
                .outcome = {Outcome::Kind::kDeadline, 0},
                .timeout = timeout,
                .ttl = {}});
  }
  Script& GetIfPresent(int64_t begin, int64_t end, Outcome answer) {
    return Add(
        {.kind = CallKind::kGetIfPresent, .begin = {begin, time_}, .end = {end, time_}, .outcome = answer, .ttl = {}});
  }
  Script& Put(int64_t begin, int64_t end, int64_t id) {
    return Add(
        {.kind = CallKind::kPut, .begin = {begin, time_}, .end = {end, time_}, .outcome = {}, .id = id, .ttl = {}});
  }
  Script& Invalidate(int64_t begin, int64_t end) {
    return Add({.kind = CallKind::kInvalidate, .begin = {begin, time_}, .end = {end, time_}, .outcome = {}, .ttl = {}});
  }
  // By a call or task from `cause` to `ended`, in which the loader ran from `begin` to `end`.
  Script& Load(std::initializer_list<int64_t> cause_begin_end_ended, Outcome result, bool refresh = false) {
    const int64_t* const at = cause_begin_end_ended.begin();
    history_.loads.push_back({.cause = {at[0], time_},
                              .begin = {at[1], time_},
                              .end = {at[2], time_},
                              .ended = {at[3], time_},
                              .refresh = refresh,
                              .outcome = result,
                              .ttl = {}});
    return *this;
  }
  // A Get() from `begin` to `begin` + 3 that loads on its own thread.
  Script& LoadingGet(int64_t begin, Outcome result) { return LoadingGet(begin, result, result); }
  Script& LoadingGet(int64_t begin, Outcome result, Outcome answer) {
    return Load({begin, begin + 1, begin + 2, begin + 3}, result).Get(begin, begin + 3, answer);
  }

  Script& Refresh(int64_t begin, int64_t end) {
    return Add({.kind = CallKind::kRefresh, .begin = {begin, time_}, .end = {end, time_}, .outcome = {}, .ttl = {}});
  }
  Script& InvalidateTag(int64_t begin, int64_t end, unsigned tag) {
    return Add({.kind = CallKind::kInvalidateTag,
                .key = kAllKeys,
                .begin = {begin, time_},
                .end = {end, time_},
                .outcome = {},
                .ttl = {},
                .tags = tag});
  }
  // The last call, the last load.
  Script& Tagged(unsigned tags) {
    history_.calls.back().tags = tags;
    return *this;
  }
  Script& LoadReturnsAt(int64_t time) {
    history_.loads.back().end.time = history_.loads.back().ended.time = time;
    return *this;
  }
  Script& TaggedLoad(unsigned tags) {
    history_.loads.back().tags = tags;
    return *this;
  }

  Call& last() { return history_.calls.back(); }
  bool Right(const Rules& rules = {}) const { return CheckHistory(rules, history_, 1).empty(); }

 private:
  Script& Add(const Call& call) {
    history_.calls.push_back(call);
    return *this;
  }

  History history_;
  int64_t time_ = 1'000;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_SCRIPT_H_
