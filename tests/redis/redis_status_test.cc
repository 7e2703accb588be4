#include "stockade/redis/redis_status.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "status.h"

namespace stockade::redis_internal {
namespace {

TEST(StatusOfErrorReplyTest, RefusalsOfPasswordsAndDatabases_OfAnyVersion_HaveTheirCodes) {
  for (const std::string error :
       {"WRONGPASS invalid username-password pair or user is disabled.", "NOAUTH Authentication required.",
        "ERR invalid password", "ERR Client sent AUTH, but no password is set",
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?"}) {
    EXPECT_EQ(StatusOfErrorReply(error).code(), absl::StatusCode::kUnauthenticated) << error;
  }
  for (const std::string error :
       {"ERR DB index is out of range", "ERR invalid DB index", "ERR SELECT is not allowed in cluster mode"}) {
    EXPECT_EQ(StatusOfErrorReply(error).code(), absl::StatusCode::kInvalidArgument) << error;
  }
  EXPECT_EQ(StatusOfErrorReply("ERR max number of clients reached").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(StatusOfErrorReply("NOPERM this user has no permissions").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(StatusOfErrorReply("ERR syntax error").code(), absl::StatusCode::kUnknown);
}

TEST(StatusOfErrorReplyTest, ArgumentsThatAServerRepeats_AreCutOff_HoweverItSeparatesThem) {
  for (const std::string error : {"ERR unknown command 'X', with args beginning with: 's3cret' 'b' ",
                                  "ERR unknown command 'X', with args beginning with: ",
                                  "ERR unknown command 'X' with args beginning with: s3cret",
                                  "ERR unknown command 'X',  With args beginning with:s3cret",
                                  "ERR unknown command 'X', WITH ARGS beginning s3cret"}) {
    EXPECT_EQ(StatusOfErrorReply(error).message(), "redis answered: ERR unknown command 'X'") << error;
  }
}

// As the sources of Redis 2.6 to 7.4 and of Valkey have them.
TEST(ImitatesRefusalTest, WordsOfServers_OfAnyVersion_AreTheirs) {
  for (const std::string error : {
           "LOADING Redis is loading the dataset in memory",
           "LOADING Valkey is loading the dataset in memory",
           "NOSCRIPT No matching script. Please use EVAL.",
           "NOSCRIPT No matching script.",
           "MASTERDOWN Link with MASTER is down and slave-serve-stale-data is set to 'no'.",
           "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
           "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not "
           "set on the script.",
           "READONLY You can't write against a read only slave.",
           "READONLY You can't write against a read only replica.",
           "READONLY You can't write against a read only replica. script: 2067d915024a3e1657c4169c84f809f8ec75fae8, on "
           "@user_script:1.",
           "READONLY Can not run script with write flag on readonly replica",
           "CLUSTERDOWN The cluster is down",
           "CLUSTERDOWN The cluster is down and only accepts read commands",
           "CLUSTERDOWN Hash slot not served",
           "TRYAGAIN Multiple keys request during rehashing of slot",
           "MOVED 12182 127.0.0.1:7000",
           "ASK 12182 ?:7000",
           "ASK 12182 :7000",
       }) {
    EXPECT_FALSE(ImitatesRefusal(error, 12'182)) << error;
    EXPECT_FALSE(ImitatesRefusal(error, std::nullopt)) << error;
  }
}

TEST(ImitatesRefusalTest, OtherWords_AfterTheSameFirstOne_AreNot) {
  for (const std::string error :
       {"LOADING", "LOADING x", "NOSCRIPT x", "MASTERDOWN", "READONLY x", "CLUSTERDOWN x", "TRYAGAIN later", "MOVED",
        "MOVED x", "MOVED 1 127.0.0.1:7000", "ASK 12182", "ASK x 127.0.0.1:7000",
        "MOVED 12182 127.0.0.1:7000 script: 2067d9, on @user_script:1.",
        "LOADING Redis is loading the dataset in memory script: 2067d9, on @user_script:1."}) {
    EXPECT_TRUE(ImitatesRefusal(error, 12'182)) << error;
  }
  for (const std::string error : {"", "ERR LOADING", "OOM x", "WRONGTYPE x", "LOADINGX y"}) {
    EXPECT_FALSE(ImitatesRefusal(error, 12'182)) << error;
  }
}

TEST(RunsCodeTest, NameOfACommand_InAnyCase_IsKnown) {
  for (const std::string name : {"EVAL", "evalsha", "Eval_RO", "FCALL", "fcall_ro", "JSON.SET"}) {
    EXPECT_TRUE(RunsCode(name)) << name;
  }
  for (const std::string name : {"GET", "EVA", "EVALX", ""}) EXPECT_FALSE(RunsCode(name)) << name;
}

}  // namespace
}  // namespace stockade::redis_internal
