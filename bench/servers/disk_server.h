#ifndef STOCKADE_BENCH_SERVERS_DISK_SERVER_H_
#define STOCKADE_BENCH_SERVERS_DISK_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "harness/suite.h"
#include "peers/peer_process.h"
#include "servers/temp_dir.h"

namespace stockade::bench {

// A server of this process that keeps its data on the disk of the build directory; serve.sh starts it. The server and
// its data go with this object, also if this process ends without destructors.
class DiskServer {
 public:
  enum class Kind { kPostgres, kMariaDb, kMariaDbBinlog, kZooKeeper };

  // OK: it can be run here, and should be. A smoke test does without such servers, because they take seconds to start,
  // unless STOCKADE_BENCH_SERVERS is set. Otherwise the status is one line that says why not.
  static absl::Status Check(Kind kind, const Suite& suite);

  // Takes some seconds.
  static absl::StatusOr<std::unique_ptr<DiskServer>> Start(Kind kind);

  // Returns the one server of `kind`, which the first call starts. It runs while there is a copy of the function. For
  // one thread.
  static std::function<const DiskServer&()> OnDemand(Kind kind);

  ~DiskServer();
  DiskServer(const DiskServer&) = delete;
  DiskServer& operator=(const DiskServer&) = delete;

  // Of a database, the folder of its socket; of ZooKeeper, host:port.
  const std::string& address() const { return address_; }

 private:
  DiskServer() = default;

  TempDir dir_;
  std::unique_ptr<PeerProcess> script_;
  std::string address_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_SERVERS_DISK_SERVER_H_
