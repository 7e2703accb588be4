#include "ledger/postgres_shop.h"

#include <cstdlib>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

struct ResultFree {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ResultFree>;

// Room on the hot row's page, so that its versions stay there and no index entry is ever written for them.
constexpr char kPostgresTables[] = R"sql(
DROP TABLE IF EXISTS stock, orders;
CREATE TABLE stock (sku text PRIMARY KEY, units bigint NOT NULL CHECK (units >= 0)) WITH (fillfactor = 10);
CREATE TABLE orders (request_id text PRIMARY KEY, sku text NOT NULL, units bigint NOT NULL, state text NOT NULL);
INSERT INTO stock VALUES ('sku', 1000000000000);
)sql";

constexpr char kStatements[] = R"sql(
PREPARE place(text, text) AS
  WITH taken AS (UPDATE stock SET units = units - 1 WHERE sku = 'sku' AND units >= 1 RETURNING sku)
  INSERT INTO orders SELECT $1, sku, 1, $2 FROM taken;
PREPARE place_many(text[]) AS
  WITH taken AS (UPDATE stock SET units = units - cardinality($1) WHERE sku = 'sku' AND units >= cardinality($1)
                 RETURNING sku)
  INSERT INTO orders SELECT request_id, sku, 1, 'sold' FROM taken, unnest($1) AS request_id;
PREPARE sell(text) AS UPDATE orders SET state = 'sold' WHERE request_id = $1 AND state = 'held';
)sql";

}  // namespace

PostgresShop::PostgresShop(const std::string& sockets, size_t clients) {
  Run(Connect(sockets).get(), kPostgresTables);
  for (size_t client = 0; client < clients; ++client) {
    connections_.push_back(Connect(sockets));
    Run(connections_.back().get(), kStatements);
  }
}

void PostgresShop::Take(size_t client, const std::string& request_id) {
  Execute(client, "place", {request_id.c_str(), "sold"});
}

void PostgresShop::Reserve(size_t client, const std::string& request_id) {
  Execute(client, "place", {request_id.c_str(), "held"});
}

void PostgresShop::Commit(size_t client, const std::string& request_id) {
  Execute(client, "sell", {request_id.c_str()});
}

void PostgresShop::TakeMany(size_t client, std::span<const std::string> request_ids) {
  std::string array = "{";
  for (const std::string& request_id : request_ids) {
    if (array.size() > 1) array += ',';
    array += request_id;
  }
  array += '}';
  Execute(client, "place_many", {array.c_str()}, request_ids.size());
}

PostgresShop::Connection PostgresShop::Connect(const std::string& sockets) {
  Connection connection(PQconnectdb(
      base_internal::Concat("host=", sockets, " user=bench dbname=postgres options=-cclient_min_messages=warning")
          .c_str()));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    base_internal::Fatal(base_internal::Concat("bench: PostgreSQL: connect: ", PQerrorMessage(connection.get())));
  }
  return connection;
}

void PostgresShop::Run(PGconn* connection, const char* sql) {
  const Result result(PQexec(connection, sql));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
    base_internal::Fatal(base_internal::Concat("bench: PostgreSQL: ", PQerrorMessage(connection)));
  }
}

void PostgresShop::Execute(size_t client, const char* statement, std::initializer_list<const char*> parameters,
                           size_t rows) {
  PGconn* const connection = connections_[client].get();
  const Result result(PQexecPrepared(connection, statement, static_cast<int>(parameters.size()), std::data(parameters),
                                     nullptr, nullptr, 0));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK ||
      std::strtoull(PQcmdTuples(result.get()), nullptr, 10) != rows) {
    base_internal::Fatal(base_internal::Concat("bench: PostgreSQL: ", statement, " changed '",
                                               PQcmdTuples(result.get()), "' rows: ", PQerrorMessage(connection)));
  }
}

}  // namespace stockade::bench
