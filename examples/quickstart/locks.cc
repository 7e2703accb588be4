// $ g++ -std=c++20 -O2 locks.cc -o locks $(pkg-config --cflags --libs stockade-locks-connect)
// $ redis-server --port 6379 --save '' > redis.log & sleep 2; ./locks
// guarded: 1, leased: 1, has a token: 1
#include <cstdio>

#include "stockade/locks/connect_lock_service.h"
#include "stockade/locks/keyed_mutex.h"

int main() {
  stockade::KeyedMutex<std::string> by_sku({.name = "sku"});  // In this process: reentrant, fair, one lock per key.
  auto guard = by_sku.Lock("shoe-1");
  auto locks = stockade::ConnectLockService("redis://127.0.0.1:6379");  // Or zookeeper://, mysql://, local:
  if (!locks.ok()) return std::puts(locks.status().ToString().c_str()), 1;
  auto lease = (*locks)->Acquire("nightly-report", {.wait = std::chrono::seconds(3)});  // A watchdog renews it.
  if (!lease.ok()) return std::puts(lease.status().ToString().c_str()), 1;
  auto token = lease->fencing_token();  // Send it with each write, and let the store refuse older tokens.
  std::printf("guarded: %d, leased: %d, has a token: %d\n", bool(guard), lease->valid(), token.ok());
}
