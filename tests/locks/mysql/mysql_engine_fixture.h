#ifndef STOCKADE_TESTS_LOCKS_MYSQL_MYSQL_ENGINE_FIXTURE_H_
#define STOCKADE_TESTS_LOCKS_MYSQL_MYSQL_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "locks/holder.h"
#include "mysql/support/mariadb_server.h"
#include "mysql_lock_engine.h"

namespace stockade::testing {

// Null, and a failure that says why, where it cannot be had.
inline std::unique_ptr<locks_internal::MySqlLockEngine> EngineOn(const std::string& url,
                                                                 MySqlLockOptions options = {}) {
  options.create_schema = true;
  absl::StatusOr<std::unique_ptr<locks_internal::MySqlLockEngine>> engine =
      locks_internal::MySqlLockEngine::Connect(url, std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// A server, one for the whole program, an engine on its empty database, and a look behind the engine's back.
class MySqlEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_MARIADB();
    engine_ = EngineOn(server().url());
    ASSERT_NE(engine_, nullptr);
    server().Query("DELETE FROM test.stockade_locks");
    server().Query("DELETE FROM test.stockade_lock_holds");
  }

  static MariaDbServer& server() {
    static MariaDbServer server({.tls = true});
    return server;
  }
  static std::string Value(const std::string& sql) { return server().Value(sql); }
  static int64_t Number(const std::string& sql) { return std::stoll(Value(sql)); }
  // Of the rows that say who holds or held it.
  static std::string Holds(const std::string& columns, const std::string& name = "stock") {
    return Value("SELECT " + columns + " FROM test.stockade_lock_holds WHERE name = '" + name + "'");
  }
  static int64_t HoldRows() { return Number("SELECT COUNT(*) FROM test.stockade_lock_holds"); }
  // As if so much time went by for what is held: microseconds.
  static void Age(absl::Duration span, const std::string& name = "stock") {
    server().Query("UPDATE test.stockade_lock_holds SET expires_at = expires_at - " +
                   std::to_string(absl::ToInt64Microseconds(span)) + " WHERE name = '" + name + "'");
  }

  std::unique_ptr<locks_internal::MySqlLockEngine> engine_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_MYSQL_MYSQL_ENGINE_FIXTURE_H_
