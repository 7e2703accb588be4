#ifndef STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_STOCKADE_WEB_SHOP_H_
#define STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_STOCKADE_WEB_SHOP_H_

#include <chrono>
#include <string>

#include "database.h"
#include "event_loop/web_shop.h"
#include "stockade/asio/cache.h"
#include "stockade/asio/inventory.h"
#include "stockade/asio/locks.h"

namespace shop {

// On Stockade: no call waits on the event loop, and each request ends with its deadline.
class StockadeWebShop final : public WebShop {
 public:
  using Products = stockade::LoadingCache<std::string, Product>;
  static constexpr std::chrono::seconds kReservation{5};

  StockadeWebShop(const asio::any_io_executor& loop, Products& products, stockade::LockService& locks,
                  stockade::Inventory& stock);

  asio::awaitable<Response> Answer(const Request& request) override;

 private:
  asio::awaitable<Response> Show(std::string id);
  asio::awaitable<Response> Order(const Request& request);

  Products& cached_;
  const stockade::AsioCache<std::string, Product> products_;
  const stockade::AsioLocks locks_;
  const stockade::AsioInventory stock_;
};

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_STOCKADE_WEB_SHOP_H_
