#include "slot_map.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

const RedisEndpoint kAsked = {.host = "10.0.0.9", .port = 7009};

RedisReply Text(std::string text) { return RedisReply::Text(RedisReply::Kind::kString, std::move(text)); }

RedisReply Node(RedisReply host, int64_t port, std::vector<RedisReply> metadata = {}) {
  return RedisReply::Array(
      {std::move(host), RedisReply::Integer(port), Text("id"), RedisReply::Array(std::move(metadata))});
}

RedisReply Range(int64_t first, int64_t last, std::vector<RedisReply> nodes) {
  std::vector<RedisReply> parts = {RedisReply::Integer(first), RedisReply::Integer(last)};
  for (RedisReply& node : nodes) parts.push_back(std::move(node));
  return RedisReply::Array(std::move(parts));
}

absl::StatusOr<SlotMap> Parse(std::vector<RedisReply> ranges) {
  return SlotMap::Parse(RedisReply::Array(std::move(ranges)), kAsked);
}

std::vector<std::string> HostsThatAreNone() {
  return {std::string("127.0.0.2\0.good.example", 23),
          std::string("\0", 1),
          "a b",
          "a/b",
          "[::1]",
          "caf\xc3\xa9",
          "a\r\n",
          std::string(256, 'a')};
}

std::string OwnerOf(const SlotMap& map, uint16_t slot) {
  const uint16_t owner = map.OwnerOf(slot);
  return owner == SlotMap::kNobody ? "nobody" : map.nodes()[owner].ToString();
}

TEST(SlotMapTest, Parse_TwoMastersWithAReplica_OwnersEndAtTheirBounds) {
  const auto map = Parse({Range(0, 99, {Node(Text("10.0.0.1"), 7001), Node(Text("10.0.0.3"), 7003)}),
                          Range(200, 16383, {Node(Text("10.0.0.2"), 7002)})});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(OwnerOf(*map, 0), "10.0.0.1:7001");
  EXPECT_EQ(OwnerOf(*map, 99), "10.0.0.1:7001");
  EXPECT_EQ(OwnerOf(*map, 100), "nobody");
  EXPECT_EQ(OwnerOf(*map, 199), "nobody");
  EXPECT_EQ(OwnerOf(*map, 200), "10.0.0.2:7002");
  EXPECT_EQ(OwnerOf(*map, 16383), "10.0.0.2:7002");
  ASSERT_EQ(map->replicas().size(), 1u);
  EXPECT_EQ(map->replicas()[0].ToString(), "10.0.0.3:7003");
}

TEST(SlotMapTest, Parse_RangesOfOneMaster_HoldItOnce) {
  const auto map = Parse({Range(0, 9, {Node(Text("a"), 1)}), Range(20, 29, {Node(Text("a"), 1)})});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->nodes().size(), 1u);
}

TEST(SlotMapTest, Parse_HostEmptyOrNil_IsTheHostThatWasAsked) {
  const auto map = Parse({Range(0, 9, {Node(Text(""), 7001)}), Range(10, 19, {Node(RedisReply(), 7002)})});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(OwnerOf(*map, 0), "10.0.0.9:7001");
  EXPECT_EQ(OwnerOf(*map, 10), "10.0.0.9:7002");
}

TEST(SlotMapTest, Parse_NameUnknown_TakesTheAddressOrLeavesTheNodeOut) {
  const auto map = Parse({Range(0, 9, {Node(Text("?"), 7001, {Text("ip"), Text("10.0.0.1")})}),
                          Range(10, 19, {Node(Text("?"), 7002)}), Range(20, 29, {Node(Text("tls-only"), 0)})});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(OwnerOf(*map, 0), "10.0.0.1:7001");
  EXPECT_EQ(OwnerOf(*map, 10), "nobody");
  EXPECT_EQ(OwnerOf(*map, 20), "nobody");
}

TEST(SlotMapTest, Parse_NoMap_SaysWhatIsWrong) {
  const auto message = [](const absl::StatusOr<SlotMap>& map) { return std::string(map.status().message()); };
  EXPECT_EQ(message(SlotMap::Parse(RedisReply::Integer(3), kAsked)), "CLUSTER SLOTS: not an array: 3");
  EXPECT_EQ(message(Parse({})), "CLUSTER SLOTS: no slot is served: []");
  EXPECT_EQ(message(Parse({RedisReply::Integer(3)})), "CLUSTER SLOTS: not a range with a node: 3");
  EXPECT_EQ(message(Parse({Range(0, 9, {RedisReply::Integer(3)})})), "CLUSTER SLOTS: not a node: 3");
  for (const auto& [first, last] : {std::pair{-1, 5}, std::pair{5, 4}, std::pair{0, 16384}}) {
    const auto map = Parse({Range(first, last, {Node(Text("a"), 1)})});
    EXPECT_EQ(map.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(message(map).find("no range of slots"), std::string::npos) << message(map);
  }
}

// getaddrinfo() stops reading at a NUL, so a list of allowed hosts would be checked for another name.
TEST(SlotMapTest, Parse_HostWithBytesThatNoHostHas_IsRefused) {
  for (const std::string& host : HostsThatAreNone()) {
    const RedisReply bad = Node(Text(host), 7001);
    EXPECT_EQ(Parse({Range(0, 9, {bad})}).status().code(), absl::StatusCode::kFailedPrecondition) << host;
    const auto replica = Parse({Range(0, 9, {Node(Text("a"), 1), bad})});
    EXPECT_EQ(replica.status().code(), absl::StatusCode::kFailedPrecondition) << host;
    const auto address = Parse({Range(0, 9, {Node(Text("?"), 7001, {Text("ip"), Text(host)})})});
    EXPECT_EQ(address.status().code(), absl::StatusCode::kFailedPrecondition) << host;
    EXPECT_EQ(std::string(address.status().message()).find('\0'), std::string::npos);
  }
}

TEST(SlotMapTest, Add_BeyondTheBound_IsNobody) {
  SlotMap map;
  for (size_t i = 0; i < SlotMap::kMaxNodes; ++i) {
    ASSERT_EQ(map.Add({.host = "a", .port = static_cast<uint16_t>(i + 1)}), i);
  }
  EXPECT_EQ(map.Add({.host = "b", .port = 1}), SlotMap::kNobody);
  EXPECT_EQ(map.Add({.host = "a", .port = 1}), 0);
}

TEST(SlotMapTest, Parse_MastersAtTheBoundAndBeyond_AreTakenAndRefused) {
  const auto masters = [](size_t count) {
    std::vector<RedisReply> ranges;
    for (size_t i = 0; i < count; ++i) {
      const auto slot = static_cast<int64_t>(i);
      ranges.push_back(Range(slot, slot, {Node(Text("a"), slot + 1)}));
    }
    return ranges;
  };
  const auto most = Parse(masters(SlotMap::kMaxNodes));
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(OwnerOf(*most, SlotMap::kMaxNodes - 1), "a:2048");
  const auto more = Parse(masters(SlotMap::kMaxNodes + 1));
  EXPECT_EQ(more.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(more.status().message().find("CLUSTER SLOTS: more than 2048 nodes: "), 0u) << more.status();
}

TEST(SlotMapTest, Parse_RangesAtTheBoundAndBeyond_AreTakenAndRefused) {
  std::vector<RedisReply> ranges(kKeySlots, Range(0, kKeySlots - 1, {Node(Text("a"), 1)}));
  EXPECT_TRUE(Parse(ranges).ok());
  ranges.push_back(ranges.back());
  const auto more = Parse(ranges);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(more.status().message().find("CLUSTER SLOTS: more than 16384 ranges: "), 0u) << more.status();
}

TEST(SlotMapTest, Parse_ReplicasBeyondTheBoundAndTwice_AreLeftOut) {
  std::vector<RedisReply> nodes = {Node(Text("a"), 1)};
  for (int64_t i = 0; i < 3000; ++i) {
    nodes.push_back(Node(Text("b"), i + 1));
    nodes.push_back(Node(Text("b"), i + 1));
  }
  const auto map = Parse({Range(0, 9, nodes), Range(10, 19, {Node(Text("c"), 1), Node(Text("b"), 1)})});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->replicas().size(), SlotMap::kMaxNodes);
  EXPECT_EQ(map->ReplicasOf(0).size(), SlotMap::kMaxNodes);
  EXPECT_EQ(map->ReplicasOf(1).size(), 0u) << "a replica has one master";
}

TEST(SlotMapTest, SameOwners_OtherOrderOrOwner_ComparesEndpoints) {
  SlotMap one;
  one.Assign(1, one.Add({.host = "a"}));
  one.Assign(2, one.Add({.host = "b"}));
  SlotMap other;
  other.Assign(2, other.Add({.host = "b"}));
  EXPECT_FALSE(one.SameOwners(other));
  EXPECT_FALSE(other.SameOwners(one));
  other.Assign(1, other.Add({.host = "a"}));
  EXPECT_TRUE(one.SameOwners(other));
  other.Assign(1, other.Add({.host = "c"}));
  EXPECT_FALSE(one.SameOwners(other));
  EXPECT_FALSE(other.SameOwners(one));
}

TEST(ParseRedirectionTest, HostPortAndSlot_AreRead) {
  const auto moved = ParseRedirection("MOVED 3999 127.0.0.1:6381", kAsked);
  ASSERT_TRUE(moved.has_value());
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->to.ToString(), "127.0.0.1:6381");
  const auto v6 = ParseRedirection("ASK 16383 ::1:6381", kAsked);
  ASSERT_TRUE(v6.has_value());
  EXPECT_EQ(v6->to.ToString(), "[::1]:6381");
}

TEST(ParseRedirectionTest, EmptyHost_IsTheHostThatWasAsked) {
  const auto moved = ParseRedirection("MOVED 1 :6381", kAsked);
  ASSERT_TRUE(moved.has_value());
  EXPECT_EQ(moved->to.ToString(), "10.0.0.9:6381");
}

TEST(ParseRedirectionTest, Broken_IsNothing) {
  for (const char* const error :
       {"MOVED", "MOVED ", "MOVED 1", "MOVED 1 ", "MOVED 1 a", "MOVED 1 a:", "MOVED 1 a:0", "MOVED 1 a:65536",
        "MOVED 1 a:6x", "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED x a:1", "MOVED 1 ?:6379"}) {
    EXPECT_FALSE(ParseRedirection(error, kAsked).has_value()) << error;
  }
  for (const std::string& host : HostsThatAreNone()) {
    EXPECT_FALSE(ParseRedirection(Concat("MOVED 1 ", host, ":6379"), kAsked).has_value()) << host;
  }
}

}  // namespace
}  // namespace stockade::redis_internal
