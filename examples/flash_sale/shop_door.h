#ifndef STOCKADE_EXAMPLES_FLASH_SALE_SHOP_DOOR_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_SHOP_DOOR_H_

#include <mutex>
#include <shared_mutex>

#include "hot_key_log.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade_shop.h"

namespace flash_sale {

// The way from the API to the Stockade shop, which is closed while its ledger is audited and between two sales.
// Thread-safe.
class ShopDoor {
 public:
  // `shop` and the log of its page views stay until Close().
  void Open(StockadeShop* shop, HotKeyLog* log) {
    const std::lock_guard lock(mutex_);
    shop_ = shop;
    log_ = log;
  }
  // Waits for those who are inside, however many want in.
  void Close() { Open(nullptr, nullptr); }

  // Calls `use` with the shop and its log, or with nullptr for both if it is closed.
  template <typename Use>
  auto Enter(Use use) {
    const std::shared_lock lock(mutex_);
    return use(shop_, log_);
  }

 private:
  stockade::ReentrantSharedMutex mutex_{stockade::LockOptions{.name = "shop_door"}};
  StockadeShop* shop_ = nullptr;  // Guarded by mutex_, like the next.
  HotKeyLog* log_ = nullptr;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_SHOP_DOOR_H_
