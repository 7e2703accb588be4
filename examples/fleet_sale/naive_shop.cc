#include "naive_shop.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "stockade/redis/redis_command.h"
#include "stockade/redis/redis_options.h"

namespace fleet_sale {
namespace {

using examples::MariaDbClient;
using stockade::RedisClient;
using stockade::RedisCommand;

constexpr char kTables[] =
    "CREATE TABLE naive_stock (node INT PRIMARY KEY, units BIGINT NOT NULL);"
    "CREATE TABLE naive_orders (order_id BIGINT AUTO_INCREMENT PRIMARY KEY, request_id VARCHAR(64) NOT NULL,"
    " node INT NOT NULL);";

}  // namespace

absl::StatusOr<std::vector<NaiveShop::Node>> NaiveShop::ConnectNodes(const ServerUrls& urls,
                                                                     absl::Duration command_timeout) {
  std::vector<Node> nodes;
  for (const std::string& url : urls.redis) {
    absl::StatusOr<Node> node = RedisClient::Connect(url, {.command_timeout = command_timeout, .metrics = nullptr});
    if (!node.ok()) return node.status();
    nodes.push_back(*std::move(node));
  }
  return nodes;
}

absl::Status NaiveShop::Prepare(const ServerUrls& urls, int64_t stock) {
  const absl::StatusOr<std::unique_ptr<MariaDbClient>> database = MariaDbClient::Connect(urls.database_socket, "shop");
  if (!database.ok()) return database.status();
  if (auto made = (*database)->Run(kTables); !made.ok()) return made.status();
  // Before the sale, a server that is slow delays nobody.
  const absl::StatusOr<std::vector<Node>> nodes = ConnectNodes(urls, absl::Seconds(30));
  if (!nodes.ok()) return nodes.status();
  const int64_t count = static_cast<int64_t>(nodes->size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t units = stock / count + (i < stock % count ? 1 : 0);
    auto inserted = (*database)->Run(absl::StrCat("INSERT INTO naive_stock VALUES (", i, ",", units, ")"));
    if (!inserted.ok()) return inserted.status();
    if (absl::Status set = SetUnits(*(*nodes)[i], units); !set.ok()) return set;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NaiveShop>> NaiveShop::Connect(const ServerUrls& urls) {
  absl::StatusOr<std::vector<Node>> nodes = ConnectNodes(urls, absl::Seconds(1));
  if (!nodes.ok()) return nodes.status();
  return std::unique_ptr<NaiveShop>(new NaiveShop(urls.database_socket, *std::move(nodes)));
}

NaiveShop::NaiveShop(const std::string& socket, std::vector<Node> nodes)
    : socket_(socket), nodes_(std::move(nodes)), connections_([] { return std::make_unique<Connection>(); }) {}

absl::StatusOr<int64_t> NaiveShop::Units(RedisClient& node) {
  const absl::StatusOr<stockade::RedisReply> reply = node.Run(RedisCommand("GET").Key(kKey));
  if (!reply.ok()) return reply.status();
  if (reply->is_nil()) return 0;  // It has none.
  return reply->AsInteger();
}

absl::Status NaiveShop::SetUnits(RedisClient& node, int64_t units) {
  return node.Run(RedisCommand("SET").Key(kKey).Arg(units)).status();
}

absl::StatusOr<int64_t> NaiveShop::InsertOrder(const std::string& request_id, size_t node) {
  absl::StatusOr<examples::Pool<Connection>::Lease> lease = connections_.Borrow();
  if (!lease.ok()) return lease.status();
  std::unique_ptr<MariaDbClient>& client = (*lease)->client;
  if (client == nullptr) {
    absl::StatusOr<std::unique_ptr<MariaDbClient>> connected = MariaDbClient::Connect(socket_, "shop");
    if (!connected.ok()) return connected.status();
    client = *std::move(connected);
  }
  const auto inserted =
      client->Run(absl::StrCat("INSERT INTO naive_orders (request_id, node) VALUES ('", request_id, "',", node, ")"));
  const int64_t id = client->inserted_id();
  if (client->broken()) client = nullptr;
  if (!inserted.ok()) return inserted.status();
  return id;
}

absl::StatusOr<int64_t> NaiveShop::Buy(const std::string& request_id) {
  absl::Status failed = absl::ResourceExhaustedError("sold out");
  const size_t first = next_node_.fetch_add(1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const size_t at = (first + i) % nodes_.size();
    RedisClient& node = *nodes_[at];
    const absl::StatusOr<int64_t> units = Units(node);
    if (!units.ok()) failed = units.status();
    if (!units.ok() || *units <= 0) continue;
    if (absl::Status set = SetUnits(node, *units - 1); !set.ok()) return set;
    absl::StatusOr<int64_t> order = InsertOrder(request_id, at);
    if (!order.ok()) {
      const absl::StatusOr<int64_t> now = Units(node);
      if (now.ok()) (void)SetUnits(node, *now + 1);
    }
    return order;
  }
  return failed;
}

}  // namespace fleet_sale
