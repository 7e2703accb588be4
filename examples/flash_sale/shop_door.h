#ifndef STOCKADE_EXAMPLES_FLASH_SALE_SHOP_DOOR_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_SHOP_DOOR_H_

#include <mutex>
#include <shared_mutex>

#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade_shop.h"

namespace flash_sale {

// The way from the API to the Stockade shop, which is closed while its ledger is audited. Thread-safe.
class ShopDoor {
 public:
  // `shop` stays until Close().
  void Open(StockadeShop* shop) {
    const std::lock_guard lock(mutex_);
    shop_ = shop;
  }
  // Waits for those who are inside, however many want in.
  void Close() { Open(nullptr); }

  // Calls `use` with the shop, or with nullptr where it is closed.
  template <typename Use>
  auto Enter(Use use) {
    const std::shared_lock lock(mutex_);
    return use(shop_);
  }

 private:
  stockade::ReentrantSharedMutex mutex_{stockade::LockOptions{.name = "shop_door"}};
  StockadeShop* shop_ = nullptr;  // Guarded by mutex_.
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_SHOP_DOOR_H_
