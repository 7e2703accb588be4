#ifndef STOCKADE_TESTS_REDIS_SUPPORT_REDIS_DEPLOYMENT_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_REDIS_DEPLOYMENT_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "redis/support/redis_cluster.h"
#include "redis/support/redis_server.h"
#include "redis/support/sentinel_set.h"

namespace stockade::testing {

enum class RedisSetup { kStandalone, kSentinel, kCluster, kTlsStandalone, kTlsSentinel, kTlsCluster };

// The first three; one server alone under a sanitizer, which slows the tests enough. For
//   INSTANTIATE_TEST_SUITE_P(Redis, MyTest, ::testing::ValuesIn(RedisSetups()), RedisSetupName);
std::vector<RedisSetup> RedisSetups();
// The others.
std::vector<RedisSetup> RedisTlsSetups();
std::string RedisSetupName(const ::testing::TestParamInfo<RedisSetup>& setup);

// What a client can be pointed at by its URL alone: a server, three Sentinels before a master and two replicas, or a
// cluster of three masters; without TLS or with it. Data outlive restarts. For one thread.
class RedisDeployment {
 public:
  // `down_after` is that of SentinelSetOptions. By default it is so long that Sentinels do not replace a slow master. A
  // test that kills the master passes a short one. `users` are those of RedisServerOptions.
  explicit RedisDeployment(RedisSetup setup, absl::Duration down_after = absl::Seconds(10),
                           std::vector<std::string> users = {});

  std::string url() const;

  // The server that is to serve the key, and one command to it.
  RedisServer& ServerOf(const std::string& key);
  RawReply Call(const std::string& key, const std::vector<std::string>& command) { return ServerOf(key).Call(command); }

  // Closes the connections of all clients, subscribers too, and forgets all scripts, on every server and Sentinel.
  void KillConnections();
  void FlushScripts();
  // Forgets all data.
  void FlushData();
  // Stops everything and starts it again. Blocks until all is settled.
  void RestartAll();

  // Null where the set-up is another.
  RedisServer* server() { return server_.get(); }
  SentinelSet* sentinels() { return sentinels_.get(); }
  RedisCluster* cluster() { return cluster_.get(); }

 private:
  std::vector<RedisServer*> Servers();

  std::unique_ptr<CertificateAuthority> authority_;
  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<SentinelSet> sentinels_;
  std::unique_ptr<RedisCluster> cluster_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_REDIS_DEPLOYMENT_H_
