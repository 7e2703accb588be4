#include "ledger/mariadb_shop.h"

#include <cstring>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr size_t kMostParameters = 2;

// An order that finds no unit is an error, so that nobody measures refusals.
constexpr const char* kMariaDbTables[] = {
    "DROP DATABASE IF EXISTS shop",
    "CREATE DATABASE shop",
    "USE shop",
    "CREATE TABLE stock (sku VARCHAR(64) PRIMARY KEY, units BIGINT NOT NULL CHECK (units >= 0)) ENGINE=InnoDB",
    R"sql(
CREATE TABLE orders (
  request_id VARCHAR(64) PRIMARY KEY, sku VARCHAR(64) NOT NULL, units BIGINT NOT NULL, state VARCHAR(16) NOT NULL
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
)sql",
    "INSERT INTO stock VALUES ('sku', 1000000000000)",
    R"sql(
CREATE PROCEDURE place(IN request_id VARCHAR(64) CHARACTER SET ascii, IN state VARCHAR(16) CHARACTER SET ascii)
BEGIN
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
  START TRANSACTION;
  UPDATE stock SET units = units - 1 WHERE sku = 'sku' AND units >= 1;
  IF ROW_COUNT() <> 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'sold out'; END IF;
  INSERT INTO orders VALUES (request_id, 'sku', 1, state);
  COMMIT;
END
)sql",
};

}  // namespace

MariaDbShop::MariaDbShop(const std::string& sockets, size_t clients) {
  const Connection maker = Connect(sockets);
  for (const char* const sql : kMariaDbTables) {
    if (mysql_query(maker.get(), sql) != 0) {
      base_internal::Fatal(base_internal::Concat("bench: MariaDB: ", mysql_error(maker.get()), ": ", sql));
    }
  }
  for (size_t i = 0; i < clients; ++i) {
    Client client{.connection = Connect(sockets), .place = nullptr, .sell = nullptr, .insert = nullptr};
    client.place = Prepare(client.connection.get(), "CALL shop.place(?, ?)");
    client.sell = Prepare(client.connection.get(),
                          "UPDATE shop.orders SET state = 'sold' WHERE request_id = ? AND state = 'held'");
    client.insert = Prepare(client.connection.get(), "INSERT INTO shop.orders VALUES (?, 'sku', 1, 'sold')");
    clients_.push_back(std::move(client));
  }
}

void MariaDbShop::Take(size_t client, const std::string& request_id) {
  const std::string_view parameters[] = {request_id, "sold"};
  Execute(clients_[client].place.get(), parameters);
}

void MariaDbShop::Reserve(size_t client, const std::string& request_id) {
  const std::string_view parameters[] = {request_id, "held"};
  Execute(clients_[client].place.get(), parameters);
}

void MariaDbShop::Commit(size_t client, const std::string& request_id) {
  const std::string_view parameters[] = {request_id};
  MYSQL_STMT* const sell = clients_[client].sell.get();
  Execute(sell, parameters);
  if (mysql_stmt_affected_rows(sell) != 1) base_internal::Fatal("bench: MariaDB: a commit changed no row");
}

void MariaDbShop::Insert(size_t client, const std::string& request_id) {
  const std::string_view parameters[] = {request_id};
  Execute(clients_[client].insert.get(), parameters);
}

MariaDbShop::Connection MariaDbShop::Connect(const std::string& sockets) {
  Connection connection(mysql_init(nullptr));
  const std::string socket = sockets + "/socket";
  if (mysql_real_connect(connection.get(), nullptr, "root", nullptr, nullptr, 0, socket.c_str(), 0) == nullptr) {
    base_internal::Fatal(base_internal::Concat("bench: MariaDB: connect: ", mysql_error(connection.get())));
  }
  return connection;
}

MariaDbShop::Statement MariaDbShop::Prepare(MYSQL* connection, std::string_view sql) {
  Statement statement(mysql_stmt_init(connection));
  if (mysql_stmt_prepare(statement.get(), sql.data(), sql.size()) != 0) {
    base_internal::Fatal(base_internal::Concat("bench: MariaDB: ", mysql_stmt_error(statement.get()), ": ", sql));
  }
  return statement;
}

void MariaDbShop::Execute(MYSQL_STMT* statement, std::span<const std::string_view> parameters) {
  MYSQL_BIND binds[kMostParameters];
  std::memset(binds, 0, sizeof(binds));
  for (size_t i = 0; i < parameters.size(); ++i) {
    binds[i].buffer_type = MYSQL_TYPE_STRING;
    binds[i].buffer = const_cast<char*>(parameters[i].data());
    binds[i].buffer_length = parameters[i].size();
  }
  if (mysql_stmt_bind_param(statement, binds) != 0 || mysql_stmt_execute(statement) != 0) {
    base_internal::Fatal(base_internal::Concat("bench: MariaDB: ", mysql_stmt_error(statement)));
  }
  while (mysql_stmt_next_result(statement) == 0) {
  }
}

}  // namespace stockade::bench
