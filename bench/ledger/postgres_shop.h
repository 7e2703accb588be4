#ifndef STOCKADE_BENCH_LEDGER_POSTGRES_SHOP_H_
#define STOCKADE_BENCH_LEDGER_POSTGRES_SHOP_H_

#include <libpq-fe.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ledger/peer_shop.h"

namespace stockade::bench {

// PostgreSQL: each call is one prepared statement and one round trip.
class PostgresShop final : public PeerShop {
 public:
  // Empties the database of the server whose socket is in the folder `sockets`.
  explicit PostgresShop(const std::string& sockets, size_t clients = kClients);

  void Take(size_t client, const std::string& request_id) override;
  void Reserve(size_t client, const std::string& request_id) override;
  void Commit(size_t client, const std::string& request_id) override;

  // A unit for each, in one transaction, all or none.
  void TakeMany(size_t client, std::span<const std::string> request_ids);

 private:
  struct Close {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  using Connection = std::unique_ptr<PGconn, Close>;

  static Connection Connect(const std::string& sockets);
  static void Run(PGconn* connection, const char* sql);
  // Runs the prepared `statement`, which changes `rows` rows.
  void Execute(size_t client, const char* statement, std::initializer_list<const char*> parameters, size_t rows = 1);

  std::vector<Connection> connections_;  // One for each client.
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_POSTGRES_SHOP_H_
