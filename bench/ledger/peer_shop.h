#ifndef STOCKADE_BENCH_LEDGER_PEER_SHOP_H_
#define STOCKADE_BENCH_LEDGER_PEER_SHOP_H_

#include <cstddef>
#include <span>
#include <string>

namespace stockade::bench {

// What most services have instead of a ledger: a row of stock that is counted down and an order that is inserted, in
// one transaction of a database, on a connection for each client. All orders are of one hot SKU, with enough in stock.
// What a call did is durable when it returns; what cannot be done aborts.
class PeerShop {
 public:
  // Unless its constructor is given another number.
  static constexpr size_t kClients = 8;

  virtual ~PeerShop() = default;

  // `client`: below the number of clients, each one thread at a time. Sells a unit at once.
  virtual void Take(size_t client, const std::string& request_id) = 0;

  // Sets a unit aside; Commit() sells it.
  virtual void Reserve(size_t client, const std::string& request_id) = 0;
  virtual void Commit(size_t client, const std::string& request_id) = 0;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_PEER_SHOP_H_
