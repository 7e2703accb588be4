#include "zookeeper_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "absl/strings/str_format.h"

namespace stockade::locks_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// As ZooKeeper appends it.
std::string Node(std::string_view client, LockKind kind, int32_t sequence) {
  return NodePrefix(client, 1, kind) + absl::StrFormat("%010d", sequence);
}

const std::string kRead1 = Node("a", LockKind::kRead, 1);
const std::string kRead2 = Node("b", LockKind::kRead, 2);
const std::string kWrite3 = Node("c", LockKind::kWrite, 3);
const std::string kRead4 = Node("d", LockKind::kRead, 4);
const std::string kWrite5 = Node("e", LockKind::kWrite, 5);

std::string WaitsFor(const std::vector<std::string>& children, const std::string& node) {
  const QueuePlace place = PlaceOf(children, node);
  EXPECT_TRUE(place.there);
  EXPECT_FALSE(place.other_kind);
  return place.waits_for.value_or("nothing");
}

TEST(ZooKeeperNodesTest, LockNode_HasNoSlashAndIsNoPathOfItsOwn) {
  EXPECT_EQ(LockNode("ticket-1_a.b~"), "ticket-1_a.b~");
  EXPECT_EQ(LockNode("a/b"), "a%2Fb");
  EXPECT_EQ(LockNode("."), "%2E");
  EXPECT_EQ(LockNode(".."), "%2E.");
  EXPECT_EQ(LockNode(std::string("\0\xff", 2)), "%00%FF");
  EXPECT_EQ(LockNode("%41"), "%2541");
}

TEST(ZooKeeperNodesTest, ParentsOf_NamesThemFromTheTop) {
  EXPECT_THAT(ParentsOf("/a/b/c"), ElementsAre("/a", "/a/b"));
  EXPECT_THAT(ParentsOf("/a"), IsEmpty());
}

TEST(ZooKeeperNodesTest, ParseNode_ReadsWhatWasMade) {
  const std::optional<QueueNode> node = ParseNode(NodePrefix("0123abcd", 17, LockKind::kWrite) + "0000000042");
  ASSERT_TRUE(node.has_value());
  EXPECT_EQ(node->kind, LockKind::kWrite);
  EXPECT_EQ(node->sequence, 42);
  const std::string wrapped = NodePrefix("a", 1, LockKind::kFair) + "-2147483648";
  ASSERT_TRUE(ParseNode(wrapped).has_value());
  EXPECT_EQ(ParseNode(wrapped)->sequence, std::numeric_limits<int32_t>::min());
  EXPECT_EQ(ParseNode(wrapped)->digits, "-2147483648");
}

TEST(ZooKeeperNodesTest, ParseNode_OfSomebodyElse_IsNone) {
  for (const std::string_view name : {"", "a", "a-1", "a-1-x", "a-1-x-", "a-1-q-0000000001", "a-1-xx-0000000001",
                                      "a-1-x-00000z0001", "lock-0000000001", "a-1-x-99999999999"}) {
    EXPECT_FALSE(ParseNode(name).has_value()) << name;
  }
}

TEST(ZooKeeperNodesTest, SequenceBefore_OverTheWrap_GoesOn) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  EXPECT_TRUE(SequenceBefore(1, 2));
  EXPECT_FALSE(SequenceBefore(2, 2));
  EXPECT_TRUE(SequenceBefore(kMost, kLeast));
  EXPECT_FALSE(SequenceBefore(kLeast, kMost));
  EXPECT_TRUE(SequenceBefore(kMost - 1, kLeast + 1));
  EXPECT_TRUE(SequenceBefore(-1, 0));
}

TEST(ZooKeeperNodesTest, PlaceOf_Exclusive_WaitsForTheOneBefore) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair}) {
    const std::string first = Node("z", kind, 7);
    const std::string second = Node("a", kind, 8);
    const std::string third = Node("m", kind, 9);
    const std::vector<std::string> children = {third, first, second};
    EXPECT_EQ(WaitsFor(children, first), "nothing");
    EXPECT_EQ(WaitsFor(children, second), first);
    EXPECT_EQ(WaitsFor(children, third), second);
  }
}

TEST(ZooKeeperNodesTest, PlaceOf_OverTheWrap_KeepsTheOrder) {
  const std::string first = Node("a", LockKind::kFair, std::numeric_limits<int32_t>::max());
  const std::string second = Node("b", LockKind::kFair, std::numeric_limits<int32_t>::min());
  EXPECT_EQ(WaitsFor({second, first}, first), "nothing");
  EXPECT_EQ(WaitsFor({second, first}, second), first);
  EXPECT_THAT(NodesThatAreIn(std::vector{second, first}), ElementsAre(first));
}

TEST(ZooKeeperNodesTest, PlaceOf_Readers_WaitForTheLastWriteBeforeThemAlone) {
  const std::vector<std::string> children = {kWrite5, kRead4, kWrite3, kRead2, kRead1};
  EXPECT_EQ(WaitsFor(children, kRead1), "nothing");
  EXPECT_EQ(WaitsFor(children, kRead2), "nothing");
  EXPECT_EQ(WaitsFor(children, kWrite3), kRead2);
  EXPECT_EQ(WaitsFor(children, kRead4), kWrite3);
  EXPECT_EQ(WaitsFor(children, kWrite5), kRead4);
}

TEST(ZooKeeperNodesTest, PlaceOf_ReadWithinItsOwnersWrite_IsInAndKeepsThePlace) {
  const std::string nested = NestedName(NodePrefix("c", 2, LockKind::kRead), kWrite3);
  EXPECT_EQ(nested, "c-2-r-0000000003");
  EXPECT_EQ(WaitsFor({kWrite3, nested, kRead4, kWrite5}, nested), "nothing");
  EXPECT_EQ(WaitsFor({kWrite3, nested, kRead4, kWrite5}, kWrite3), "nothing");
  EXPECT_EQ(WaitsFor({nested, kRead4, kWrite5}, kRead4), "nothing");  // Downgraded.
  EXPECT_EQ(WaitsFor({nested, kWrite5}, kWrite5), nested);
}

TEST(ZooKeeperNodesTest, PlaceOf_NotThere_SaysSo) {
  EXPECT_FALSE(PlaceOf(std::vector<std::string>{kRead1}, kRead2).there);
  EXPECT_FALSE(PlaceOf({}, kRead2).there);
}

TEST(ZooKeeperNodesTest, PlaceOf_OtherKindBefore_IsSeenByTheLaterOneAlone) {
  const std::string fair = Node("f", LockKind::kFair, 1);
  const std::string reentrant = Node("x", LockKind::kReentrant, 2);
  const std::vector<std::string> children = {fair, reentrant};
  EXPECT_TRUE(PlaceOf(children, reentrant).other_kind);
  EXPECT_FALSE(PlaceOf(children, fair).other_kind);
  EXPECT_TRUE(PlaceAtEnd(std::vector{kRead1}, LockKind::kFair).other_kind);
  EXPECT_FALSE(PlaceAtEnd(std::vector{kRead1}, LockKind::kWrite).other_kind);
}

TEST(ZooKeeperNodesTest, PlaceAtEnd_SaysWhatIsInTheWay) {
  EXPECT_EQ(PlaceAtEnd({}, LockKind::kReentrant).waits_for, std::nullopt);
  EXPECT_EQ(PlaceAtEnd(std::vector{kRead1, kRead2}, LockKind::kRead).waits_for, std::nullopt);
  EXPECT_EQ(PlaceAtEnd(std::vector{kRead1, kRead2}, LockKind::kWrite).waits_for, kRead2);
  EXPECT_EQ(PlaceAtEnd(std::vector{kWrite3, kRead1}, LockKind::kRead).waits_for, kWrite3);
}

TEST(ZooKeeperNodesTest, PlaceOf_AmongStrangers_DoesNotSeeThem) {
  EXPECT_EQ(WaitsFor({"config", "lock-0000000000", kRead1, kWrite3}, kWrite3), kRead1);
}

TEST(ZooKeeperNodesTest, NodesThatAreIn_AreThoseThatWaitForNothing) {
  EXPECT_THAT(NodesThatAreIn(std::vector{kWrite5, kRead4, kWrite3, kRead2, kRead1}),
              UnorderedElementsAre(kRead1, kRead2));
  EXPECT_THAT(NodesThatAreIn(std::vector{kWrite5, kRead4, kWrite3}), ElementsAre(kWrite3));
  const std::string nested = NestedName(NodePrefix("c", 2, LockKind::kRead), kWrite3);
  EXPECT_THAT(NodesThatAreIn(std::vector{kWrite5, kRead4, nested, kWrite3}), UnorderedElementsAre(kWrite3, nested));
  EXPECT_THAT(NodesThatAreIn(std::vector{kRead4, nested}), UnorderedElementsAre(kRead4, nested));
  EXPECT_THAT(NodesThatAreIn({}), IsEmpty());
}

TEST(ZooKeeperNodesTest, FindByPrefix_TellsAttemptsApart) {
  const std::vector<std::string> children = {"a-12-x-0000000001", "a-1-x-0000000002"};
  EXPECT_EQ(FindByPrefix(children, NodePrefix("a", 1, LockKind::kReentrant)), "a-1-x-0000000002");
  EXPECT_EQ(FindByPrefix(children, NodePrefix("a", 2, LockKind::kReentrant)), std::nullopt);
}

}  // namespace
}  // namespace stockade::locks_internal
