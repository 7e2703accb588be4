#include "stockade/mysql/internal/mysql_error.h"

#include <errmsg.h>
#include <gtest/gtest.h>
#include <mysqld_error.h>

namespace stockade::mysql_internal {
namespace {

struct Case {
  unsigned error;
  absl::StatusCode code;
  MySqlRemedy remedy;
};

constexpr absl::StatusCode kAway = absl::StatusCode::kUnavailable;
constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
constexpr absl::StatusCode kMissing = absl::StatusCode::kFailedPrecondition;

TEST(MySqlErrorTest, EachMeaning_HasItsRemedy) {
  constexpr Case kCases[] = {
      {ER_LOCK_DEADLOCK, kAway, MySqlRemedy::kRunAgain},
      {ER_CHECKREAD, kAway, MySqlRemedy::kRunAgain},
      {ER_LOCK_WAIT_TIMEOUT, kAway, MySqlRemedy::kRollBack},
      {ER_QUERY_INTERRUPTED, kAway, MySqlRemedy::kRollBack},
      {ER_OPTION_PREVENTS_STATEMENT, kAway, MySqlRemedy::kReconnect},
      {ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, kAway, MySqlRemedy::kReconnect},
      {ER_READ_ONLY_MODE, kAway, MySqlRemedy::kReconnect},
      {ER_SERVER_SHUTDOWN, kAway, MySqlRemedy::kReconnect},
      {ER_CON_COUNT_ERROR, kAway, MySqlRemedy::kReconnect},
      {ER_CONNECTION_KILLED, kAway, MySqlRemedy::kReconnect},
      {CR_SERVER_GONE_ERROR, kAway, MySqlRemedy::kReconnect},
      {CR_SERVER_LOST, kAway, MySqlRemedy::kReconnect},
      {CR_CONN_HOST_ERROR, kAway, MySqlRemedy::kReconnect},
      {ER_NET_READ_ERROR, kAway, MySqlRemedy::kReconnect},
      {ER_NET_ERROR_ON_WRITE, kAway, MySqlRemedy::kReconnect},
      {ER_ACCESS_DENIED_ERROR, kDenied, MySqlRemedy::kReconnect},
      {ER_DBACCESS_DENIED_ERROR, kDenied, MySqlRemedy::kReconnect},
      {ER_TABLEACCESS_DENIED_ERROR, kDenied, MySqlRemedy::kReconnect},
      {ER_NO_SUCH_TABLE, kMissing, MySqlRemedy::kNone},
      {ER_BAD_DB_ERROR, kMissing, MySqlRemedy::kReconnect},
      {ER_BAD_FIELD_ERROR, kMissing, MySqlRemedy::kNone},
      {ER_PARSE_ERROR, absl::StatusCode::kInternal, MySqlRemedy::kNone},
  };
  for (const Case& each : kCases) {
    const MySqlMeaning meaning = MeaningOfMySqlError(each.error);
    EXPECT_EQ(meaning.code, each.code) << each.error;
    EXPECT_EQ(meaning.remedy, each.remedy) << each.error;
  }
}

TEST(MySqlErrorTest, ConnectorsOwnNumbers_AreNoAnswerOfTheServer) {
  // 5014: it could not write. 0: it failed without a number.
  for (const unsigned error : {0U, 2000U, unsigned{CR_SERVER_LOST}, 2999U, 5000U, 5013U, 5014U, 5999U}) {
    EXPECT_TRUE(IsMySqlClientError(error)) << error;
    EXPECT_EQ(MeaningOfMySqlError(error).code, kAway) << error;
    EXPECT_EQ(MeaningOfMySqlError(error).remedy, MySqlRemedy::kReconnect) << error;
  }
  for (const unsigned error : {1999U, 3000U, 4999U, 6000U}) EXPECT_FALSE(IsMySqlClientError(error)) << error;
}

// The table is searched by halves.
TEST(MySqlErrorTest, EveryNumber_FindsItsOwn) {
  EXPECT_EQ(MeaningOfMySqlError(1020).remedy, MySqlRemedy::kRunAgain);
  EXPECT_EQ(MeaningOfMySqlError(4151).code, kDenied);
  EXPECT_EQ(MeaningOfMySqlError(1019).code, absl::StatusCode::kInternal);
  EXPECT_EQ(MeaningOfMySqlError(4152).code, absl::StatusCode::kInternal);
}

TEST(MySqlErrorTest, Status_HasTheNumberAndTheText) {
  EXPECT_EQ(MySqlErrorStatus(1213, "Deadlock found"), absl::UnavailableError("MySQL error 1213: Deadlock found"));
}

}  // namespace
}  // namespace stockade::mysql_internal
