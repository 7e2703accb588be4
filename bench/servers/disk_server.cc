#include "servers/disk_server.h"

#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "servers/free_port.h"

namespace stockade::bench {
namespace {

std::vector<std::string> Script(DiskServer::Kind kind, const std::string& what) {
  switch (kind) {
    case DiskServer::Kind::kPostgres: return {STOCKADE_BENCH_SERVE_SCRIPT, "postgres", what};
    case DiskServer::Kind::kMariaDb: return {STOCKADE_BENCH_SERVE_SCRIPT, "mariadb", what};
    case DiskServer::Kind::kMariaDbBinlog: return {STOCKADE_BENCH_SERVE_SCRIPT, "mariadb-binlog", what};
    case DiskServer::Kind::kZooKeeper: break;
  }
  return {STOCKADE_BENCH_SERVE_SCRIPT, "zookeeper", what, std::to_string(FreePort())};
}

}  // namespace

absl::Status DiskServer::Check(Kind kind, const Suite& suite) {
  if (suite.quick() && std::getenv("STOCKADE_BENCH_SERVERS") == nullptr) {
    return absl::FailedPreconditionError("a smoke test starts servers only if STOCKADE_BENCH_SERVERS is set");
  }
  const auto script = PeerProcess::Start(Script(kind, "check"));
  if (!script.ok()) return script.status();
  const absl::StatusOr<std::string> line = (*script)->ReadLine(absl::Seconds(30));
  if (!line.ok()) return line.status();
  return *line == "here" ? absl::OkStatus() : absl::NotFoundError(*line);
}

absl::StatusOr<std::unique_ptr<DiskServer>> DiskServer::Start(Kind kind) {
  std::unique_ptr<DiskServer> server(new DiskServer());
  auto script = PeerProcess::Start(Script(kind, server->dir_.path()));
  if (!script.ok()) return script.status();
  server->script_ = *std::move(script);
  const absl::StatusOr<std::string> line = server->script_->ReadLine(absl::Seconds(120));
  if (!line.ok()) return line.status();
  constexpr std::string_view kReady = "ready ";
  if (line->rfind(kReady, 0) != 0) return absl::UnavailableError(*line);
  server->address_ = line->substr(kReady.size());
  return server;
}

std::function<const DiskServer&()> DiskServer::OnDemand(Kind kind) {
  return [kind, server = std::make_shared<std::unique_ptr<DiskServer>>()]() -> const DiskServer& {
    if (*server == nullptr) *server = Require(Start(kind), "a server");
    return **server;
  };
}

DiskServer::~DiskServer() {
  if (script_ != nullptr) (void)script_->Ask("stop", absl::Seconds(60));
}

}  // namespace stockade::bench
