#ifndef STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_MAP_WEB_SHOP_H_
#define STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_MAP_WEB_SHOP_H_

#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "database.h"
#include "event_loop/web_shop.h"

namespace shop {

// The usual one: a map with a TTL and a mutex for all event loops, which wait for the database.
struct MapShopState {
  using Clock = std::chrono::steady_clock;
  struct Cached {
    Product product;
    Clock::time_point until;
  };

  std::mutex mutex;
  std::unordered_map<std::string, Cached> products;  // This and the next are guarded by mutex.
  std::unordered_set<std::string> requests;
  std::mutex stock_mutex;  // From the read of the stock to its write.
};

class MapWebShop final : public WebShop {
 public:
  MapWebShop(Database& db, MapShopState& state) : db_(db), state_(state) {}

  asio::awaitable<Response> Answer(const Request& request) override;

 private:
  absl::StatusOr<Product> Find(const std::string& id);
  Response Order(const Request& request);

  Database& db_;
  MapShopState& state_;
};

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_MAP_WEB_SHOP_H_
