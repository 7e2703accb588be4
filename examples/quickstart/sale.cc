// $ g++ -std=c++20 -O2 sale.cc -o sale $(pkg-config --cflags --libs stockade-inventory stockade-metrics)
// $ ./sale & sleep 3; curl -s http://127.0.0.1:9464/metrics | grep "^stockade_inventory_sold_units"
// sold 100, refused 900
// stockade_inventory_sold_units{inventory="shop"} 100
#include <iostream>
#include <thread>

#include "stockade/inventory/inventory.h"
#include "stockade/metrics/metrics_server.h"

int main() {
  auto metrics = stockade::MetricsServer::Start({.port = 9464});  // Optional: http://127.0.0.1:9464/metrics
  stockade::Inventory shop({.name = "shop"});
  auto added = shop.AddSku("shoe-1", {.stock = 100, .shards = 4});
  if (!metrics.ok() || !added.ok()) return std::cerr << metrics.status() << "; " << added << std::endl, 1;
  std::atomic<int> sold = 0, refused = 0;
  std::vector<std::jthread> buyers(1000);
  for (size_t i = 0; i < buyers.size(); ++i) {
    buyers[i] = std::jthread([&, click = "click-" + std::to_string(i)] {
      auto held = shop.Reserve({.sku = "shoe-1", .request_id = click, .ttl = std::chrono::minutes(10)});
      bool paid = held.ok() && shop.Commit(held->id()).ok();  // Or Cancel(). Without either the reservation expires.
      ++(paid ? sold : refused);                              // RefusalOf(held.status()) says why it was refused.
    });
  }
  buyers.clear();  // Joins the threads.
  std::cout << "sold " << sold << ", refused " << refused << std::endl;
  std::this_thread::sleep_for(std::chrono::seconds(60));  // You can look at the metrics.
}
