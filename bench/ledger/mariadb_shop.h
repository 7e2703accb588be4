#ifndef STOCKADE_BENCH_LEDGER_MARIADB_SHOP_H_
#define STOCKADE_BENCH_LEDGER_MARIADB_SHOP_H_

#include <mysql.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/peer_shop.h"

namespace stockade::bench {

// MariaDB with InnoDB: each call is one prepared statement and one round trip, an order a procedure that holds the
// transaction.
class MariaDbShop final : public PeerShop {
 public:
  // Empties the database of the server whose socket is in the folder `sockets`.
  explicit MariaDbShop(const std::string& sockets, size_t clients = kClients);

  void Take(size_t client, const std::string& request_id) override;
  void Reserve(size_t client, const std::string& request_id) override;
  void Commit(size_t client, const std::string& request_id) override;
  // Writes an order and leaves the stock as it is.
  void Insert(size_t client, const std::string& request_id);

 private:
  struct Close {
    void operator()(MYSQL* connection) const { mysql_close(connection); }
    void operator()(MYSQL_STMT* statement) const { mysql_stmt_close(statement); }
  };
  using Connection = std::unique_ptr<MYSQL, Close>;
  using Statement = std::unique_ptr<MYSQL_STMT, Close>;

  // The statements go before their connection.
  struct Client {
    Connection connection;
    Statement place;
    Statement sell;
    Statement insert;
  };

  static Connection Connect(const std::string& sockets);
  static Statement Prepare(MYSQL* connection, std::string_view sql);
  static void Execute(MYSQL_STMT* statement, std::span<const std::string_view> parameters);

  std::vector<Client> clients_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_MARIADB_SHOP_H_
