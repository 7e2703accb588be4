#include "stockade/redis/redis_command.h"

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stockade {
namespace {

TEST(RedisCommandTest, Wire_KeysAndArguments_InTheirOrder) {
  EXPECT_EQ(RedisCommand("SET").Key("k").Arg("v").Arg("PX").Arg(-30).Wire(),
            "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nPX\r\n$3\r\n-30\r\n");
  EXPECT_EQ(RedisCommand("PING").Wire(), "*1\r\n$4\r\nPING\r\n");
}

TEST(RedisCommandTest, Wire_BinaryAndEmpty_AsTheyAre) {
  const std::string binary("a\r\n\0b", 5);
  EXPECT_EQ(RedisCommand("SET").Key(binary).Arg("").Wire(), "*3\r\n$3\r\nSET\r\n$5\r\n" + binary + "\r\n$0\r\n\r\n");
}

TEST(RedisCommandTest, Key_IsThatOfItsPlace) {
  RedisCommand command("MGET");
  command.Key("one").Arg("no key").Key(std::string(10'000, 'x'));
  ASSERT_EQ(command.key_count(), 2);
  EXPECT_EQ(command.key(0), "one");
  EXPECT_EQ(command.key(1), std::string(10'000, 'x'));
}

TEST(RedisCommandTest, Script_ByHash_AndWhole) {
  const RedisScript script("return 1");
  const RedisCommand command = RedisCommand(script, {"k1", "k2"}).Arg(7);
  const std::string rest = "$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$1\r\n7\r\n";
  EXPECT_EQ(command.Wire(), "*6\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n" + rest);
  EXPECT_EQ(command.WholeScriptWire(), "*6\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n" + rest);
  EXPECT_EQ(command.key_count(), 2);
  EXPECT_TRUE(command.has_script());
  EXPECT_FALSE(RedisCommand("GET").has_script());
}

TEST(RedisScriptTest, Sha1_OfTheSource_SharedByCopies) {
  EXPECT_EQ(RedisScript("").sha1(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  const RedisScript script("return 1");
  const RedisScript copy = script;
  EXPECT_EQ(copy.source().data(), script.source().data());
}

TEST(RedisCommandTest, RouteBy_ChoosesTheNodeAndIsNotSent) {
  const RedisCommand wait = RedisCommand("WAIT").Arg(1).Arg(100).RouteBy("stock");
  EXPECT_EQ(wait.Wire(), RedisCommand("WAIT").Arg(1).Arg(100).Wire());
  EXPECT_EQ(wait.key_count(), 0u);
  EXPECT_EQ(wait.routing_key(), "stock");
  EXPECT_EQ(RedisCommand("GET").Key("k").RouteBy("stock").routing_key(), "k");
  EXPECT_EQ(RedisCommand("PING").routing_key(), std::nullopt);
}

TEST(RedisCommandTest, Transaction_HasTheCommandsWithTheirKeysBetweenMultiAndExec) {
  const RedisScript script("return 1");
  const RedisCommand commands[] = {RedisCommand("PING").RouteBy("ignored"), RedisCommand("SET").Key("{a}").Arg("v"),
                                   RedisCommand(script, {"{a}2"})};
  const RedisCommand transaction = RedisCommand::Transaction(commands);
  EXPECT_EQ(transaction.Wire(), "*1\r\n$5\r\nMULTI\r\n" + commands[0].Wire() + commands[1].Wire() +
                                    commands[2].WholeScriptWire() + "*1\r\n$4\r\nEXEC\r\n");
  ASSERT_EQ(transaction.key_count(), 2);
  EXPECT_EQ(transaction.key(0), "{a}");
  EXPECT_EQ(transaction.key(1), "{a}2");
  EXPECT_EQ(transaction.routing_key(), "{a}");
  EXPECT_TRUE(transaction.is_transaction());
  EXPECT_EQ(transaction.transaction_commands()[2], "EVALSHA");
  EXPECT_FALSE(transaction.has_script());
  EXPECT_EQ(RedisCommand::Transaction(std::span(commands, 1)).routing_key(), "ignored");
}

TEST(RedisCommandTest, Transaction_IsIdempotentIfAllItsCommandsAre) {
  const RedisCommand one[] = {RedisCommand("GET").Key("k").Idempotent()};
  const RedisCommand two[] = {one[0], RedisCommand("INCR").Key("k")};
  EXPECT_TRUE(RedisCommand::Transaction(one).idempotent());
  EXPECT_FALSE(RedisCommand::Transaction(two).idempotent());
  EXPECT_TRUE(RedisCommand::Transaction(two).Idempotent().idempotent());
}

TEST(RedisCommandTest, Idempotent_OnlyWhereItIsSaid) {
  EXPECT_FALSE(RedisCommand("INCR").Key("k").idempotent());
  EXPECT_TRUE(RedisCommand("GET").Key("k").Idempotent().idempotent());
}

}  // namespace
}  // namespace stockade
