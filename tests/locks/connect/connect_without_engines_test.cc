#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "stockade/locks/connect_lock_service.h"

namespace stockade {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ConnectWithoutEnginesTest, EnginesUrl_TellsHowToBuildIt) {
  const struct {
    std::string url;
    std::string target;
    std::string package;
  } engines[] = {{"redis://u:secret@127.0.0.1", "stockade::locks_redis", "libhiredis-dev"},
                 {"redis+cluster://127.0.0.1", "stockade::locks_redis", "libhiredis-dev"},
                 {"rediss://u:secret@127.0.0.1", "stockade::locks_redis", "libssl-dev"},
                 {"rediss+sentinel://u:secret@127.0.0.1/m", "stockade::locks_redis", "libssl-dev"},
                 {"rediss+cluster://127.0.0.1", "stockade::locks_redis", "libssl-dev"},
                 {"redlock:redis://a,redis://b,redis://c", "stockade::locks_redis", "libhiredis-dev"},
                 {"zookeeper://u:secret@127.0.0.1:2181", "stockade::locks_zookeeper", "libzookeeper-mt-dev"},
                 {"mysql://u:secret@127.0.0.1/db", "stockade::locks_mysql", "libmariadb-dev"},
                 {"mariadb://127.0.0.1/db", "stockade::locks_mysql", "libmariadb-dev"}};
  for (const auto& engine : engines) {
    const absl::Status refused = ConnectLockService(engine.url).status();
    EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(engine.target), HasSubstr(engine.package), Not(HasSubstr("secret"))));
  }
}

TEST(ConnectWithoutEnginesTest, Local_IsThere) { EXPECT_TRUE(ConnectLockService("local:").ok()); }

}  // namespace
}  // namespace stockade
