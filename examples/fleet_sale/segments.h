#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SEGMENTS_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SEGMENTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mariadb_client.h"
#include "sale_board.h"
#include "seller.h"
#include "shop.h"
#include "stockade/redis/redis_client.h"

namespace fleet_sale {

// Reads the units of each segment, for the page. One thread at a time.
class Segments {
 public:
  Segments(Half half, const ServerUrls& urls);

  // Nothing if MariaDB does not answer. A naive node that does not answer has 0 units.
  std::optional<std::vector<Segment>> Read();

 private:
  std::vector<Segment> ReadNaive();
  absl::StatusOr<std::vector<Segment>> ReadStockade();
  // The reply to a command for a node, if it is a number.
  std::optional<int64_t> Number(size_t node, const stockade::RedisCommand& command);

  const Half half_;
  const ServerUrls urls_;
  std::vector<std::unique_ptr<stockade::RedisClient>> nodes_;
  std::unique_ptr<examples::MariaDbClient> database_;  // Null after an error.
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SEGMENTS_H_
