#ifndef STOCKADE_BENCH_FLEET_INVENTORY_SEGMENTS_SHOP_H_
#define STOCKADE_BENCH_FLEET_INVENTORY_SEGMENTS_SHOP_H_

#include <memory>
#include <string>

#include "ledger/mariadb_shop.h"
#include "servers/redis_process.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {

// The usual segmented inventory: the stock is split over keys of a Redis server, with a lock each. A client locks a
// segment, takes a unit by a script, releases the lock, and then writes the order to MariaDB. A client that ends in
// between loses the unit, and a Redis server that loses its data sells again what is sold.
class SegmentsShop final : public PeerShop {
 public:
  static constexpr size_t kSegments = 16;

  // As MariaDbShop, and a Redis server of its own.
  SegmentsShop(const std::string& sockets, size_t clients);

  void Take(size_t client, const std::string& request_id) override;
  // Aborts: it has no reservations.
  void Reserve(size_t client, const std::string& request_id) override;
  void Commit(size_t client, const std::string& request_id) override;

 private:
  // Whether nobody else had it.
  bool Lock(const std::string& segment, const std::string& owner);
  void Unlock(const std::string& segment, const std::string& owner);

  const RedisProcess redis_;
  const std::unique_ptr<RedisClient> client_;
  MariaDbShop orders_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_INVENTORY_SEGMENTS_SHOP_H_
