#include "segments.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/or_throw.h"
#include "naive_shop.h"
#include "stockade/redis/redis_command.h"

namespace fleet_sale {

using examples::MariaDbClient;
using examples::MariaDbRow;
using examples::MariaDbRows;
using stockade::RedisClient;
using stockade::RedisCommand;

Segments::Segments(Half half, const ServerUrls& urls) : half_(half), urls_(urls) {
  for (const std::string& url : urls.redis) {
    // A page that is late by a moment does no harm, but the sale must go on.
    nodes_.push_back(
        examples::OrThrow(RedisClient::Connect(url, {.command_timeout = absl::Milliseconds(100), .metrics = nullptr})));
  }
}

std::optional<int64_t> Segments::Number(size_t node, const RedisCommand& command) {
  const absl::StatusOr<stockade::RedisReply> reply = nodes_[node]->Run(command);
  if (!reply.ok() || reply->is_nil()) return std::nullopt;
  const absl::StatusOr<int64_t> number = reply->AsInteger();
  return number.ok() ? std::optional(*number) : std::nullopt;
}

std::optional<std::vector<Segment>> Segments::Read() {
  if (half_ == Half::kNaive) return ReadNaive();
  absl::StatusOr<std::vector<Segment>> segments = ReadStockade();
  if (segments.ok()) return *std::move(segments);
  database_ = nullptr;
  return std::nullopt;
}

std::vector<Segment> Segments::ReadNaive() {
  std::vector<Segment> segments;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    segments.push_back({.name = absl::StrCat("Redis ", i + 1),
                        .units = Number(i, RedisCommand("GET").Key(NaiveShop::kKey)).value_or(0)});
  }
  return segments;
}

absl::StatusOr<std::vector<Segment>> Segments::ReadStockade() {
  if (database_ == nullptr) {
    absl::StatusOr<std::unique_ptr<MariaDbClient>> connected = MariaDbClient::Connect(urls_.database_socket, "shop");
    if (!connected.ok()) return connected.status();
    database_ = *std::move(connected);
  }
  // By the order of FLEET_INVENTORY.md: the ledger's own segments, then those of the Redis nodes.
  const absl::StatusOr<MariaDbRows> rows = database_->Run(
      "SELECT t.sku_id, t.segment, t.units, COALESCE(n.name, '') FROM sale_stock t"
      " LEFT JOIN sale_nodes n ON n.node_id + 1000000 = t.segment ORDER BY t.segment");
  if (!rows.ok()) return rows.status();
  std::vector<Segment> segments;
  std::vector<std::optional<Segment>> of_nodes(nodes_.size());
  for (const MariaDbRow& row : *rows) {
    const int64_t units = std::atoll(row[2].c_str());
    const auto node = std::find(urls_.redis.begin(), urls_.redis.end(), row[3]);
    if (node == urls_.redis.end()) {
      segments.push_back({.name = absl::StrCat("ledger ", segments.size() + 1), .units = units});
      continue;
    }
    const size_t at = static_cast<size_t>(node - urls_.redis.begin());
    const std::string key = absl::StrCat("stockade:inv:{sale:", row[0], "}:", row[1]);
    of_nodes[at] = Segment{.name = absl::StrCat("Redis ", at + 1),
                           .units = units,
                           .at_node = Number(at, RedisCommand("HGET").Key(key).Arg("n"))};
  }
  for (size_t i = 0; i < of_nodes.size(); ++i) {
    segments.push_back(of_nodes[i].value_or(Segment{.name = absl::StrCat("Redis ", i + 1)}));
  }
  return segments;
}

}  // namespace fleet_sale
