#include "subscription_line.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "redis/support/redis_server.h"
#include "support/await.h"

namespace stockade::redis_internal {
namespace {

using testing::RedisServer;

constexpr absl::Duration kSilence = absl::Seconds(1);
constexpr absl::Duration kInstant = absl::Nanoseconds(1);

// A line that is up since `up_`, by times that the test makes up. The server is never listened to: it is silent.
class SubscriptionLineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_.emplace();
    Connect(up_);
  }

  void Connect(Instant now) {
    const auto make_link = [this](Instant) {
      return Link::Connect({.host = "127.0.0.1", .port = server_->port()}, {}, size_t{1} << 20,
                           Instant::InfiniteFuture());
    };
    line_.Connect(make_link, now, &connected_);
    testing::Await("the connection", [&] { return line_.TakeAttempt(now) == absl::OkStatus(); });
  }

  absl::Status Judge(Instant now) { return line_.JudgeSilence(now, now); }

  const Instant up_ = Instant() + absl::Hours(1);
  std::optional<RedisServer> server_;
  EventFd connected_ = *EventFd::Create();
  SubscriptionLine line_{{.connect_timeout = absl::Seconds(60),
                          .min_backoff = absl::Milliseconds(1),
                          .max_backoff = absl::Milliseconds(1),
                          .silence = kSilence},
                         1};
};

TEST_F(SubscriptionLineTest, Silence_IsAskedAndThenBroken) {
  EXPECT_EQ(line_.wakes_at(), up_ + kSilence);
  EXPECT_EQ(Judge(up_ + kSilence - kInstant), absl::OkStatus());
  EXPECT_EQ(Judge(up_ + kSilence), absl::OkStatus());
  EXPECT_EQ(Judge(up_ + 2 * kSilence - kInstant), absl::OkStatus());
  EXPECT_EQ(Judge(up_ + 2 * kSilence).code(), absl::StatusCode::kUnavailable);
}

TEST_F(SubscriptionLineTest, ConnectedAgain_PingOfTheOldConnectionDoesNotCount) {
  EXPECT_EQ(Judge(up_ + kSilence), absl::OkStatus());
  EXPECT_EQ(Judge(up_ + 2 * kSilence).code(), absl::StatusCode::kUnavailable);
  line_.Lose(up_ + 2 * kSilence);
  const Instant again = up_ + 3 * kSilence;
  Connect(again);
  EXPECT_EQ(Judge(again + kSilence), absl::OkStatus());
  EXPECT_EQ(line_.wakes_at(), again + 2 * kSilence);
}

TEST_F(SubscriptionLineTest, LostAfterLong_PausesBeginAnew) {
  SubscriptionLine line({.connect_timeout = absl::Seconds(60),
                         .min_backoff = absl::Seconds(1),
                         .max_backoff = absl::Seconds(8),
                         .silence = kSilence},
                        1);
  const auto fail = [&](Instant now) {
    line.Connect([](Instant) { return absl::UnavailableError("away"); }, now, &connected_);
    testing::Await("the failure", [&] { return line.TakeAttempt(now).has_value(); });
    return line.wakes_at() - now;
  };
  for (int i = 0; i < 4; ++i) fail(up_);
  const auto make_link = [this](Instant) {
    return Link::Connect({.host = "127.0.0.1", .port = server_->port()}, {}, size_t{1} << 20,
                         Instant::InfiniteFuture());
  };
  line.Connect(make_link, up_, &connected_);
  testing::Await("the connection", [&] { return line.TakeAttempt(up_) == absl::OkStatus(); });
  const Instant lost = up_ + absl::Seconds(8);
  line.Lose(lost);
  EXPECT_EQ(line.wakes_at(), lost);
  EXPECT_LE(fail(lost), absl::Seconds(1));
}

// The process stood still: that is no silence of the server's.
TEST_F(SubscriptionLineTest, AskedLate_TheServerHasAsLongToAnswer) {
  const Instant late = up_ + 10 * kSilence;
  EXPECT_EQ(Judge(late), absl::OkStatus());
  EXPECT_EQ(line_.wakes_at(), late + kSilence);
  EXPECT_EQ(Judge(late + kSilence - kInstant), absl::OkStatus());
  EXPECT_EQ(Judge(late + kSilence).code(), absl::StatusCode::kUnavailable);
}

// The thread stood still after it had polled: what came since then is still to be received.
TEST_F(SubscriptionLineTest, JudgedLate_SilenceEndsWhenItWasPolled_AndThePingIsOfNow) {
  const Instant late = up_ + 10 * kSilence;
  EXPECT_EQ(line_.JudgeSilence(up_ + kSilence - kInstant, late), absl::OkStatus());
  EXPECT_EQ(line_.wakes_at(), up_ + kSilence);
  EXPECT_EQ(line_.JudgeSilence(up_ + kSilence, late), absl::OkStatus());
  EXPECT_EQ(line_.wakes_at(), late + kSilence);
  EXPECT_EQ(line_.JudgeSilence(late + kSilence - kInstant, late + 10 * kSilence), absl::OkStatus());
  EXPECT_EQ(line_.JudgeSilence(late + kSilence, late + kSilence).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace stockade::redis_internal
