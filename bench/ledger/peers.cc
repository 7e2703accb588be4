#include "ledger/peers.h"

#include <string_view>
#include <utility>

#include "ledger/naive_shop.h"
#include "servers/temp_dir.h"
#include "stockade/base/strings.h"
#if defined(STOCKADE_BENCH_POSTGRES) || defined(STOCKADE_BENCH_MARIADB)
#include "servers/disk_server.h"
#endif
#ifdef STOCKADE_BENCH_POSTGRES
#include "ledger/postgres_shop.h"
#endif
#ifdef STOCKADE_BENCH_MARIADB
#include "ledger/mariadb_shop.h"
#endif

namespace stockade::bench {
namespace {

// The shop goes before its file.
struct NaiveShopInFile {
  TempDir dir;
  NaiveShop shop{dir.path() + "/naive.db"};
};

Peer SqlitePeer() {
  return {.name = "SQLite, a transaction an order", .open = [] {
            const auto made = std::make_shared<NaiveShopInFile>();
            return std::shared_ptr<PeerShop>(made, &made->shop);
          }};
}

#if defined(STOCKADE_BENCH_POSTGRES) || defined(STOCKADE_BENCH_MARIADB)
template <typename Shop>
std::function<std::shared_ptr<PeerShop>()> OnServer(DiskServer::Kind kind) {
  return [server = DiskServer::OnDemand(kind)]() -> std::shared_ptr<PeerShop> {
    return std::make_shared<Shop>(server().address());
  };
}

void AddServer(Suite& suite, std::vector<Peer>& peers, DiskServer::Kind kind, Peer peer) {
  if (const absl::Status here = DiskServer::Check(kind, suite); !here.ok()) {
    suite.LeaveOut(peer.name, std::string(here.message()));
  } else {
    peers.push_back(std::move(peer));
  }
}
#endif

constexpr std::string_view kPostgres = "PostgreSQL, one hot row";
constexpr std::string_view kMariaDb = "MariaDB, one hot row";

}  // namespace

std::vector<Peer> FindPeers(Suite& suite) {
  std::vector<Peer> peers;
#ifdef STOCKADE_BENCH_POSTGRES
  AddServer(suite, peers, DiskServer::Kind::kPostgres,
            {.name = std::string(kPostgres),
             .open = OnServer<PostgresShop>(DiskServer::Kind::kPostgres),
             .has_targets = true,
             .take_many = [](PeerShop& shop, size_t client, std::span<const std::string> request_ids) {
               static_cast<PostgresShop&>(shop).TakeMany(client, request_ids);
             }});
#else
  suite.LeaveOut(kPostgres, "its library was not found when this was built (Debian: libpq-dev)");
#endif
#ifdef STOCKADE_BENCH_MARIADB
  AddServer(suite, peers, DiskServer::Kind::kMariaDb,
            {.name = std::string(kMariaDb), .open = OnServer<MariaDbShop>(DiskServer::Kind::kMariaDb)});
#else
  suite.LeaveOut(kMariaDb, "its library was not found when this was built (Debian: libmariadb-dev)");
#endif
  peers.push_back(SqlitePeer());
  return peers;
}

}  // namespace stockade::bench
