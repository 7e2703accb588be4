#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "cache/schedules/fleet.h"

namespace stockade::testing {
namespace {

constexpr int64_t kStaleness = 10;

// A history of key 0, written by hand. Each step has the time that At() set last. A value is its id, and process 0
// makes it.
class FleetScript {
 public:
  FleetScript& At(int64_t time) {
    time_ = time;
    return *this;
  }
  // A load from `begin` to `end` that reads the database in between.
  FleetScript& Load(int64_t id, int64_t begin, int64_t read, int64_t end, bool stored = true) {
    history_.made[id] = {.as_of = read, .made = read, .began = {begin, time_}, .ended = end, .stored = stored};
    if (stored) history_.stores.push_back({end, id});
    return *this;
  }
  FleetScript& FailedLoad(int64_t id, int64_t begin, int64_t read, int64_t end) {
    Load(id, begin, read, end, false);
    history_.made[id].error = true;
    return *this;
  }
  FleetScript& Tagged(int64_t id, unsigned tags) {
    history_.made[id].tags = tags;
    return *this;
  }
  // `granted`: by the tier, which is an invalidation of the key.
  FleetScript& Put(int64_t id, int64_t begin, int64_t granted, int64_t end) {
    history_.made[id] = {
        .put = true, .as_of = granted, .made = begin, .began = {begin, time_}, .ended = end, .stored = true};
    return Invalidate(0, begin, granted, end);
  }
  FleetScript& Invalidate(int process, int64_t begin, int64_t accepted, int64_t end) {
    return Add({.process = process,
                .scope = FleetHistory::Scope::kKey,
                .begin = begin,
                .end = end,
                .accepted = {accepted, accepted == kNever ? kNever : time_}});
  }
  FleetScript& InvalidateTag(int process, unsigned tag, int64_t begin, int64_t accepted, int64_t end) {
    return Add({.process = process,
                .scope = FleetHistory::Scope::kTag,
                .tags = tag,
                .begin = begin,
                .end = end,
                .accepted = {accepted, time_}});
  }
  FleetScript& InvalidateAll(int process, int64_t begin, int64_t accepted, int64_t end) {
    return Add({.process = process, .begin = begin, .end = end, .accepted = {accepted, time_}});
  }
  FleetScript& Beat(int process, int64_t shown, int64_t end) {
    history_.heartbeats.push_back({process, shown, end});
    return *this;
  }
  FleetScript& Get(int process, int64_t begin, int64_t end, Outcome::Kind kind, int64_t id) {
    history_.lookups.push_back({.process = process,
                                .timed = timed_,
                                .in_loader = in_loader_,
                                .begin = {begin, time_},
                                .end = end,
                                .outcome = {kind, id}});
    return *this;
  }
  FleetScript& Get(int process, int64_t begin, int64_t end, int64_t id) {
    return Get(process, begin, end, Outcome::Kind::kValue, id);
  }
  FleetScript& Timed() {
    timed_ = true;
    return *this;
  }
  FleetScript& InLoader() {
    in_loader_ = true;
    return *this;
  }
  FleetScript& Stored(int64_t step, int64_t id) {
    history_.stores.push_back({step, id});
    return *this;
  }
  FleetScript& Loads(int64_t loads, int64_t allowed) {
    history_.counts[0] = {loads, allowed};
    return *this;
  }

  // The rule that is broken; empty: none.
  std::string Broken(bool stale_if_error = false) const {
    const std::string wrong = CheckFleet({kStaleness, stale_if_error}, history_);
    return wrong.substr(0, wrong.find_first_of(" :"));
  }

  static constexpr int64_t kNever = FleetHistory::kNotYet;

 private:
  FleetScript& Add(const FleetHistory::Invalidation& invalidation) {
    history_.invalidations.push_back(invalidation);
    return *this;
  }

  FleetHistory history_;
  int64_t time_ = 1'000;
  bool timed_ = false;
  bool in_loader_ = false;
};

// Each test: a history that breaks one rule, and its like that keeps it.

TEST(FleetCheckerTest, Answer_OfNoLoad_BreaksMade) {
  EXPECT_EQ(FleetScript().Load(1, 1, 2, 3).Get(1, 4, 5, 2).Broken(), "made");
  EXPECT_EQ(FleetScript().Load(1, 5, 6, 7).Get(1, 2, 4, 1).Broken(), "made") << "not loaded yet";
  EXPECT_EQ(FleetScript().Get(1, 2, FleetScript::kNever, Outcome::Kind::kNone, 0).Broken(), "made") << "no answer";
  EXPECT_EQ(FleetScript().Get(1, 2, 4, Outcome::Kind::kUnexpected, 0).Broken(), "made");
  EXPECT_EQ(FleetScript().Load(1, 1, 2, 3).Get(1, 4, 5, 1).Broken(), "");
}

TEST(FleetCheckerTest, OlderThanAnInvalidationOfTheProcess_BreaksP3) {
  const auto script = [](int64_t read) {
    return FleetScript().Load(1, 1, read, 20, false).Invalidate(0, 5, FleetScript::kNever, 7);
  };
  EXPECT_EQ(script(3).Get(0, 8, 21, 1).Broken(), "P3") << "although the tier has not accepted it";
  EXPECT_EQ(script(3).Get(0, 6, 21, 1).Broken(), "") << "the invalidation has not returned";
  EXPECT_EQ(script(6).Get(0, 8, 21, 1).Broken(), "") << "has read what was written before the invalidation";
  EXPECT_EQ(script(3).Get(1, 8, 21, 1).Broken(), "") << "another process";
  EXPECT_EQ(script(3).Get(0, 8, 21, 1).Broken(true), "P3");
}

TEST(FleetCheckerTest, OlderThanAPutOfTheProcess_BreaksP3) {
  const auto script = [] { return FleetScript().Load(1, 1, 2, 3).Put(2, 5, 6, 8); };
  EXPECT_EQ(script().Get(0, 9, 10, 1).Broken(), "P3");
  EXPECT_EQ(script().Get(0, 9, 10, 2).Broken(), "");
  EXPECT_EQ(script().Get(0, 7, 10, 1).Broken(), "");
}

TEST(FleetCheckerTest, PutUnderWayDuringAnInvalidation_MayComeAfterIt) {
  const auto script = [](int64_t put_ended) {
    return FleetScript().Put(1, 1, 2, put_ended).Invalidate(0, 5, FleetScript::kNever, 7).Get(0, 20, 21, 1);
  };
  EXPECT_EQ(script(4).Broken(), "P3");
  EXPECT_EQ(script(6).Broken(), "");
}

TEST(FleetCheckerTest, OlderThanWhatWasAcceptedMaxStalenessAgo_BreaksP2) {
  const auto script = [](int64_t time) {
    return FleetScript().Load(1, 1, 2, 3).Invalidate(0, 5, 6, 7).At(time).Get(1, 8, 9, 1);
  };
  EXPECT_EQ(script(1'000 + kStaleness).Broken(), "P2");
  EXPECT_EQ(script(1'000 + kStaleness).Broken(true), "");
  EXPECT_EQ(script(1'000 + kStaleness - 1).Broken(), "");
}

TEST(FleetCheckerTest, OlderThanWhatAHeartbeatHasShown_BreaksShown) {
  const auto script = [](int process, int64_t shown, int64_t ended) {
    return FleetScript().Load(1, 1, 2, 3).Invalidate(0, 5, 6, 7).Beat(process, shown, ended).Get(1, 20, 21, 1);
  };
  EXPECT_EQ(script(1, 8, 9).Broken(), "shown");
  EXPECT_EQ(script(1, 8, 9).Broken(true), "shown");
  EXPECT_EQ(script(1, 5, 9).Broken(), "") << "had not been accepted";
  EXPECT_EQ(script(1, 8, 21).Broken(), "") << "has not ended";
  EXPECT_EQ(script(0, 8, 9).Broken(), "") << "of another process";
  EXPECT_EQ(script(1, 0, 9).Broken(), "") << "did not reach the tier";
}

TEST(FleetCheckerTest, TagsAndAll_ConcernWhatHasThem) {
  const auto tag = [](unsigned tags) {
    return FleetScript().Load(1, 1, 2, 3).Tagged(1, tags).InvalidateTag(0, 2, 5, 6, 7).Get(0, 8, 9, 1).Broken();
  };
  EXPECT_EQ(tag(3), "P3");
  EXPECT_EQ(tag(1), "");
  EXPECT_EQ(FleetScript().Load(1, 1, 2, 3).InvalidateAll(0, 5, 6, 7).Get(0, 8, 9, 1).Broken(), "P3");
}

TEST(FleetCheckerTest, ValueThatTheTierNeverStored_FoundTooLate_BreaksAway) {
  const auto script = [](bool stored, int64_t begin, int64_t time) {
    return FleetScript().Load(1, 1, 2, 10, stored).At(time).Get(0, begin, 12, 1);
  };
  EXPECT_EQ(script(false, 11, 1'000 + kStaleness).Broken(), "away");
  EXPECT_EQ(script(false, 11, 1'000 + kStaleness).Broken(true), "");
  EXPECT_EQ(script(false, 11, 1'000 + kStaleness - 1).Broken(), "");
  EXPECT_EQ(script(false, 9, 1'000 + kStaleness).Broken(), "") << "has joined the load";
  EXPECT_EQ(script(true, 11, 1'000 + kStaleness).Broken(), "");
}

TEST(FleetCheckerTest, ErrorOrPutThatWasNotGranted_FoundAfterItsEnd_BreaksAway) {
  const auto failed = [](int64_t begin) {
    return FleetScript().FailedLoad(1, 1, 2, 10).Get(0, begin, 12, Outcome::Kind::kError, 1).Broken();
  };
  EXPECT_EQ(failed(11), "away");
  EXPECT_EQ(failed(9), "");
  const auto put = [](int64_t begin) {
    return FleetScript().Put(1, 1, FleetScript::kNever, 10).Get(0, begin, 12, 1).Broken();
  };
  EXPECT_EQ(put(11), "away");
  EXPECT_EQ(put(9), "");
}

TEST(FleetCheckerTest, Refusals_HaveAReason) {
  EXPECT_EQ(FleetScript().Get(0, 1, 2, Outcome::Kind::kDeadline, 0).Broken(), "deadline");
  EXPECT_EQ(FleetScript().Timed().Get(0, 1, 2, Outcome::Kind::kDeadline, 0).Broken(), "");
  EXPECT_EQ(FleetScript().Get(0, 1, 2, Outcome::Kind::kCircle, 0).Broken(), "circle");
  EXPECT_EQ(FleetScript().InLoader().Get(0, 1, 2, Outcome::Kind::kCircle, 0).Broken(), "");
}

TEST(FleetCheckerTest, StoreOfWhatWasInvalidated_BreaksP1) {
  const auto script = [](int64_t read) {
    return FleetScript().Load(1, 1, read, 9, false).Invalidate(1, 5, 6, 7).Stored(8, 1).Broken();
  };
  EXPECT_EQ(script(4), "P1");
  EXPECT_EQ(script(6), "");
  EXPECT_EQ(FleetScript().Load(1, 1, 4, 9, false).Invalidate(1, 5, 10, 11).Stored(8, 1).Broken(), "")
      << "accepted later";
}

TEST(FleetCheckerTest, MoreLoadsThanReasons_BreakCount) {
  EXPECT_EQ(FleetScript().Loads(3, 2).Broken(), "count");
  EXPECT_EQ(FleetScript().Loads(2, 2).Broken(), "");
}

}  // namespace
}  // namespace stockade::testing
