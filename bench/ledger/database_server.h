#ifndef STOCKADE_BENCH_LEDGER_DATABASE_SERVER_H_
#define STOCKADE_BENCH_LEDGER_DATABASE_SERVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ledger/temp_dir.h"
#include "peers/peer_process.h"

namespace stockade::bench {

// A database server of our own, on a socket and on the disk that the ledger writes to: serve_database.sh tells how. It
// and its data are gone with this object, and also where this process ends without destructors.
class DatabaseServer {
 public:
  enum class Kind { kPostgres, kMariaDb };

  // OK: it can be run here. Else one line that says why not.
  static absl::Status Check(Kind kind);

  // Takes some seconds.
  static absl::StatusOr<std::unique_ptr<DatabaseServer>> Start(Kind kind);

  ~DatabaseServer();
  DatabaseServer(const DatabaseServer&) = delete;
  DatabaseServer& operator=(const DatabaseServer&) = delete;

  // The folder of its socket.
  const std::string& sockets() const { return sockets_; }

 private:
  DatabaseServer() = default;

  TempDir dir_;
  std::unique_ptr<PeerProcess> script_;
  std::string sockets_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_DATABASE_SERVER_H_
