#ifndef STOCKADE_TESTS_REDIS_SUPPORT_HOSTILE_RUN_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_HOSTILE_RUN_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "redis/support/hostile_node.h"
#include "redis/support/slow_names.h"
#include "stockade/base/clock.h"
#include "support/process_counts.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {

// The clients of HostileRun() have this for RedisOptions::max_nodes.
inline constexpr size_t kHostileMaxNodes = 24;
// On a machine that does much else, a call may end so much later than its time-out says.
inline constexpr absl::Duration kHostileMargin = absl::Seconds(30);

// Runs `call`, which is to end within `timeout`.
template <typename Call>
void EndsInTime(absl::Duration timeout, Call call) {
  const Instant before = Clock::System()->Now();
  call();
  EXPECT_LT(Clock::System()->Now() - before, timeout + kHostileMargin);
}

// For some seeds: a hostile node, and `run`, which gives it to `clients` clients, with at most `own` threads besides
// those of the clients. Checks the threads and descriptors.
inline void HostileRun(int64_t seeds, size_t clients, size_t own,
                       const std::function<void(const HostileNode& node, uint64_t seed)>& run) {
  for (int64_t i = 0; i < seeds; ++i) {
    const uint64_t seed = Seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    SlowNames::Reset();
    {
      const HostileNode node(seed);
      ProcessWatch watch(node.port());
      EndsInTime(absl::Minutes(1), [&] { run(node, seed); });
      watch.End();
      EXPECT_GT(node.accepted(), 0u);
      // A connection for commands and one for subscriptions to each node, with a thread each; a few threads of each
      // client, and those that resolve names. Some end, and others begin, while the watch counts.
      const size_t lines = 2 * kHostileMaxNodes;
      EXPECT_LE(watch.more_threads(), own + clients * (lines + 8 + 32));
      EXPECT_LE(watch.most_connections(), clients * (lines + 32));
      EXPECT_LE(watch.more_descriptors(), clients * (2 * lines + 64));
      EXPECT_LE(SlowNames::most_waiting(), static_cast<int>(clients * 8));
    }
    SlowNames::Answer();
  }
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_HOSTILE_RUN_H_
