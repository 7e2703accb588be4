#include "servers.h"

#include "common/or_throw.h"
#include "stockade/redis/redis_client.h"
#include "stockade/redis/redis_command.h"

namespace fleet_sale {

using examples::OrThrow;

Servers::Servers() {
  for (int i = 0; i < kNodes; ++i) nodes_.push_back(OrThrow(examples::OwnRedis::Start()));
  database_ = OrThrow(examples::OwnMariaDb::Start());
}

ServerUrls Servers::urls() const {
  ServerUrls urls = {.database_socket = database_->socket(), .ledger = database_->url()};
  for (const auto& node : nodes_) urls.redis.push_back(node->url());
  return urls;
}

void Servers::Command(int node, const char* name) {
  // SAVE waits for the disk, and a busy machine for its turn.
  const stockade::RedisOptions patient = {
      .connect_timeout = absl::Seconds(30), .command_timeout = absl::Seconds(30), .metrics = nullptr};
  const auto client = OrThrow(stockade::RedisClient::Connect(nodes_[node]->url(), patient));
  OrThrow(client->Run(stockade::RedisCommand(name)).status());
}

}  // namespace fleet_sale
