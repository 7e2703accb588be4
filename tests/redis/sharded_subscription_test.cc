#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "key_slot.h"
#include "redis/support/channel_router.h"
#include "redis/support/ear.h"
#include "redis/support/redis_cluster.h"
#include "stockade/base/strings.h"
#include "subscription_hub.h"
#include "support/await.h"

namespace stockade::redis_internal {
namespace {

using testing::Await;
using testing::ChannelRouter;
using testing::Ear;
using testing::RedisCluster;

// Its map of the slots comes from the test at first, then from MOVED.
class SlotRouter final : public ChannelRouter {
 public:
  explicit SlotRouter(RedisCluster& cluster) : ports_(kKeySlots) {
    for (const testing::RawReply& range : cluster.node(0).Call({"CLUSTER", "SLOTS"}).items) {
      const int port = std::stoi(range.items[2].items[1].text);
      for (int slot = std::stoi(range.items[0].text); slot <= std::stoi(range.items[1].text); ++slot) {
        ports_[static_cast<size_t>(slot)] = static_cast<uint16_t>(port);
      }
    }
  }

  void Know(std::string_view channel, uint16_t port) {
    const std::lock_guard lock(mutex_);
    ports_[KeySlot(channel)] = port;
  }
  int moves() const {
    const std::lock_guard lock(mutex_);
    return moves_;
  }

  bool sharded_channels() const override { return true; }
  absl::StatusOr<std::string> ChannelHome(std::string_view channel) override {
    const uint16_t port = PortOf(channel);
    if (port == 0) return absl::UnavailableError("nobody has the slot");
    return Concat("127.0.0.1:", port);
  }
  void OnChannelMoved(std::string_view channel, std::string_view error) override {
    const std::lock_guard lock(mutex_);
    ++moves_;
    if (error.empty()) return;
    ports_[KeySlot(channel)] = static_cast<uint16_t>(std::stoi(std::string(error.substr(error.rfind(':') + 1))));
  }
  absl::StatusOr<std::unique_ptr<Link>> ConnectForChannel(std::string_view channel, Instant deadline) override {
    return Link::Connect({.host = "127.0.0.1", .port = PortOf(channel)}, {}, size_t{1} << 20, deadline);
  }

 private:
  uint16_t PortOf(std::string_view channel) const {
    const std::lock_guard lock(mutex_);
    return ports_[KeySlot(channel)];
  }

  mutable std::mutex mutex_;
  std::vector<uint16_t> ports_;
  int moves_ = 0;
};

class ShardedSubscriptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    cluster_ = std::make_unique<RedisCluster>();
    router_ = std::make_unique<SlotRouter>(*cluster_);
    hub_ = std::make_unique<SubscriptionHub>(RedisOptions{}, router_.get(), &metrics_, *EventFd::Create());
  }
  void TearDown() override {
    if (hub_ != nullptr) hub_->Stop();
  }

  std::shared_ptr<Subscription> Subscribed(const std::string& channel, Ear& ear) {
    std::shared_ptr<Subscription> made = *hub_->Subscribe(channel, ear.subscriber());
    const absl::Status confirmed = hub_->AwaitSubscribed(*made, absl::Seconds(30));
    EXPECT_TRUE(confirmed.ok()) << confirmed;
    return made;
  }
  // To the node that has the channel's slot; how many heard it.
  std::string Publish(const std::string& channel, const std::string& text) {
    return cluster_->NodeOf(channel).Call({"SPUBLISH", channel, text}).text;
  }

  std::unique_ptr<RedisCluster> cluster_;
  ComponentMetrics metrics_;
  std::unique_ptr<SlotRouter> router_;
  std::unique_ptr<SubscriptionHub> hub_;
};

TEST_F(ShardedSubscriptionTest, ChannelsOfAllNodes_AreHeardAndEnd) {
  Ear ears[30];
  std::vector<std::shared_ptr<Subscription>> subscriptions;
  for (int i = 0; i < 30; ++i) subscriptions.push_back(Subscribed(Concat("channel ", i), ears[i]));
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(Publish(Concat("channel ", i), "x"), "1");
    EXPECT_TRUE(ears[i].AwaitMessage("x"));
    EXPECT_EQ(ears[i].confirmations(), 1);
  }
  for (const auto& subscription : subscriptions) hub_->Unsubscribe(*subscription);
  for (size_t node = 0; node < RedisCluster::kMasters; ++node) {
    Await("no subscriber to be left", [&] {
      return cluster_->node(node).Call({"PUBSUB", "SHARDCHANNELS"}).items.empty();
    });
  }
}

TEST_F(ShardedSubscriptionTest, SlotMoves_SubscriptionFollowsAndTells) {
  Ear ear;
  Ear stays_ear;
  const auto moves = Subscribed("{a}channel", ear);
  const auto stays = Subscribed("{b}channel", stays_ear);
  const int slot = KeySlot("a");
  const size_t from = cluster_->OwnerOf(slot);
  const size_t to = (from + 1) % RedisCluster::kMasters;
  cluster_->MoveSlot(slot, from, to);
  ASSERT_TRUE(ear.AwaitConfirmations(2));
  EXPECT_EQ(cluster_->node(to).Call({"SPUBLISH", "{a}channel", "here"}), "1");
  EXPECT_TRUE(ear.AwaitMessage("here"));
  EXPECT_EQ(Publish("{b}channel", "still"), "1");
  EXPECT_TRUE(stays_ear.AwaitMessage("still"));
  EXPECT_EQ(stays_ear.confirmations(), 1);
}

TEST_F(ShardedSubscriptionTest, RouterIsWrong_MovedSetsItRight) {
  const size_t wrong = (cluster_->OwnerOf(KeySlot("news")) + 1) % RedisCluster::kMasters;
  router_->Know("news", cluster_->node(wrong).port());
  Ear ear;
  const auto subscription = Subscribed("news", ear);
  EXPECT_EQ(router_->moves(), 1);
  EXPECT_EQ(Publish("news", "x"), "1");
  EXPECT_TRUE(ear.AwaitMessage("x"));
}

TEST_F(ShardedSubscriptionTest, NobodyHasTheSlot_IsUnavailableUntilSomebodyDoes) {
  const uint16_t owner = cluster_->NodeOf("news").port();
  router_->Know("news", 0);
  Ear ear;
  const auto subscription = *hub_->Subscribe("news", ear.subscriber());
  const auto given_up = *hub_->Subscribe("{news}2", ear.subscriber());
  Await("the router to be asked",
        [&] { return absl::IsUnavailable(hub_->AwaitSubscribed(*subscription, absl::ZeroDuration())); });
  EXPECT_EQ(hub_->AwaitSubscribed(*subscription, absl::ZeroDuration()).message(),
            "redis 'default': channel 'news': nobody has the slot");
  hub_->Unsubscribe(*given_up);
  router_->Know("news", owner);
  ASSERT_TRUE(ear.AwaitConfirmations(1));
  EXPECT_EQ(Publish("news", "x"), "1");
  EXPECT_TRUE(ear.AwaitMessage("x"));
}

TEST_F(ShardedSubscriptionTest, NodeDies_ItsChannelsGoToTheNewOwnerAndOthersHearOn) {
  Ear ear;
  Ear other_ear;
  const std::string name = "news";
  const size_t owner = cluster_->OwnerOf(KeySlot(name));
  const size_t next = (owner + 1) % RedisCluster::kMasters;
  std::string other = "other";
  while (cluster_->OwnerOf(KeySlot(other)) != next) other += "!";
  const auto subscription = Subscribed(name, ear);
  const auto on_other = Subscribed(other, other_ear);
  cluster_->node(owner).Kill();
  // The slot is taken by hand, as a failover would.
  for (size_t node = 0; node < RedisCluster::kMasters; ++node) {
    if (node == owner) continue;
    const std::string slot = std::to_string(KeySlot(name));
    cluster_->node(node).Call(
        {"CLUSTER", "SETSLOT", slot, "NODE", cluster_->node(next).Call({"CLUSTER", "MYID"}).text});
  }
  router_->Know(name, cluster_->node(next).port());
  ASSERT_TRUE(ear.AwaitConfirmations(2));
  EXPECT_EQ(other_ear.confirmations(), 1);
}

}  // namespace
}  // namespace stockade::redis_internal
