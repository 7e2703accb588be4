#include "redis/support/redis_deployment.h"

#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/scale.h"

namespace stockade::testing {

std::vector<RedisSetup> RedisSetups() {
  if (kSanitized) return {RedisSetup::kStandalone};
  return {RedisSetup::kStandalone, RedisSetup::kSentinel, RedisSetup::kCluster};
}

std::vector<RedisSetup> RedisTlsSetups() {
  if (kSanitized) return {RedisSetup::kTlsStandalone};
  return {RedisSetup::kTlsStandalone, RedisSetup::kTlsSentinel, RedisSetup::kTlsCluster};
}

std::string RedisSetupName(const ::testing::TestParamInfo<RedisSetup>& setup) {
  switch (setup.param) {
    case RedisSetup::kStandalone: return "Standalone";
    case RedisSetup::kSentinel: return "Sentinel";
    case RedisSetup::kCluster: return "Cluster";
    case RedisSetup::kTlsStandalone: return "TlsStandalone";
    case RedisSetup::kTlsSentinel: return "TlsSentinel";
    case RedisSetup::kTlsCluster: return "TlsCluster";
  }
  return "";
}

RedisDeployment::RedisDeployment(RedisSetup setup, absl::Duration down_after, std::vector<std::string> users) {
  RedisServerOptions server = {.appendonly = true, .users = std::move(users)};
  if (setup >= RedisSetup::kTlsStandalone) {
    authority_ = std::make_unique<CertificateAuthority>();
    server.tls = TlsOf(*authority_);
  }
  switch (setup) {
    case RedisSetup::kTlsStandalone:
    case RedisSetup::kStandalone: server_ = std::make_unique<RedisServer>(server); break;
    case RedisSetup::kTlsSentinel:
    case RedisSetup::kSentinel:
      sentinels_ = std::make_unique<SentinelSet>(SentinelSetOptions{.server = server, .down_after = down_after});
      break;
    case RedisSetup::kTlsCluster:
    case RedisSetup::kCluster: cluster_ = std::make_unique<RedisCluster>(RedisClusterOptions{.server = server}); break;
  }
}

std::string RedisDeployment::url() const {
  if (sentinels_ != nullptr) return sentinels_->url();
  return cluster_ != nullptr ? cluster_->url() : server_->url();
}

std::vector<RedisServer*> RedisDeployment::Servers() {
  std::vector<RedisServer*> servers;
  if (server_ != nullptr) servers.push_back(server_.get());
  for (size_t i = 0; sentinels_ != nullptr && i < 3; ++i) {
    servers.push_back(&sentinels_->server(i));
    servers.push_back(&sentinels_->sentinel(i));
  }
  for (size_t i = 0; cluster_ != nullptr && i < cluster_->size(); ++i) servers.push_back(&cluster_->node(i));
  std::erase_if(servers, [](const RedisServer* server) { return !server->running(); });
  return servers;
}

RedisServer& RedisDeployment::ServerOf(const std::string& key) {
  if (sentinels_ != nullptr) return sentinels_->master();
  return cluster_ != nullptr ? cluster_->NodeOf(key) : *server_;
}

void RedisDeployment::KillConnections() {
  for (const RedisServer* server : Servers()) server->KillConnections();
}

void RedisDeployment::FlushScripts() {
  // A Sentinel has no scripts, and says so.
  for (const RedisServer* server : Servers()) server->Call({"SCRIPT", "FLUSH"});
}

void RedisDeployment::FlushData() {
  // A Sentinel has none, and a replica follows its master.
  for (const RedisServer* server : Servers()) server->Call({"FLUSHALL"});
}

void RedisDeployment::RestartAll() {
  if (server_ != nullptr) server_->Restart();
  if (sentinels_ != nullptr) sentinels_->RestartAll();
  if (cluster_ != nullptr) cluster_->RestartAll();
}

}  // namespace stockade::testing
