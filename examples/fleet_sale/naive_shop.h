#ifndef STOCKADE_EXAMPLES_FLEET_SALE_NAIVE_SHOP_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_NAIVE_SHOP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mariadb_client.h"
#include "common/pool.h"
#include "shop.h"
#include "stockade/redis/redis_client.h"

namespace fleet_sale {

// The shop as many services are written: each Redis node has its part of the stock as a plain number, which a process
// reads, decreases and writes back. Then it inserts the order into MariaDB. If that fails, it puts the unit back. It
// ignores request ids. Nothing of it is wrong for one caller at a time while no server fails.
class NaiveShop final : public Shop {
 public:
  // The number of units at a node.
  static constexpr char kKey[] = "naive:stock";

  // Creates the tables, and puts `stock` units on the nodes. Once, before any process connects.
  static absl::Status Prepare(const ServerUrls& urls, int64_t stock);
  static absl::StatusOr<std::unique_ptr<NaiveShop>> Connect(const ServerUrls& urls);

  absl::StatusOr<int64_t> Buy(const std::string& request_id) override;

 private:
  using Node = std::unique_ptr<stockade::RedisClient>;
  // A connection to MariaDB, if there is one. It is opened again after an error.
  struct Connection {
    std::unique_ptr<examples::MariaDbClient> client;
  };

  NaiveShop(const std::string& socket, std::vector<Node> nodes);

  static absl::StatusOr<std::vector<Node>> ConnectNodes(const ServerUrls& urls, absl::Duration command_timeout);
  static absl::StatusOr<int64_t> Units(stockade::RedisClient& node);
  static absl::Status SetUnits(stockade::RedisClient& node, int64_t units);
  absl::StatusOr<int64_t> InsertOrder(const std::string& request_id, size_t node);

  const std::string socket_;
  const std::vector<Node> nodes_;
  std::atomic<size_t> next_node_ = 0;
  examples::Pool<Connection> connections_;
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_NAIVE_SHOP_H_
