#include "ledger/database_server.h"

#include <string_view>
#include <vector>

#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

std::vector<std::string> Script(DatabaseServer::Kind kind, const std::string& what) {
  return {STOCKADE_BENCH_LEDGER_SOURCES "/serve_database.sh",
          kind == DatabaseServer::Kind::kPostgres ? "postgres" : "mariadb", what};
}

}  // namespace

absl::Status DatabaseServer::Check(Kind kind) {
  const auto script = PeerProcess::Start(Script(kind, "check"));
  if (!script.ok()) return script.status();
  const absl::StatusOr<std::string> line = (*script)->ReadLine(absl::Seconds(30));
  if (!line.ok()) return line.status();
  return *line == "here" ? absl::OkStatus() : absl::NotFoundError(*line);
}

absl::StatusOr<std::unique_ptr<DatabaseServer>> DatabaseServer::Start(Kind kind) {
  std::unique_ptr<DatabaseServer> server(new DatabaseServer());
  auto script = PeerProcess::Start(Script(kind, server->dir_.path()));
  if (!script.ok()) return script.status();
  server->script_ = *std::move(script);
  const absl::StatusOr<std::string> line = server->script_->ReadLine(absl::Seconds(120));
  if (!line.ok()) return line.status();
  constexpr std::string_view kReady = "ready ";
  if (line->rfind(kReady, 0) != 0) return absl::UnavailableError(*line);
  server->sockets_ = line->substr(kReady.size());
  return server;
}

DatabaseServer::~DatabaseServer() {
  if (script_ != nullptr) (void)script_->Ask("stop", absl::Seconds(60));
}

}  // namespace stockade::bench
