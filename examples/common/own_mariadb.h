#ifndef STOCKADE_EXAMPLES_COMMON_OWN_MARIADB_H_
#define STOCKADE_EXAMPLES_COMMON_OWN_MARIADB_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mariadb_client.h"
#include "common/process.h"
#include "common/temp_directory.h"

namespace examples {

// A MariaDB server with an empty database "shop", in a temporary directory, with a Unix socket only: no port can be
// taken. It loses nothing that it has acknowledged when it is killed, because it synchronizes its log and its binary
// log. Stopped, and the directory removed, with the object.
class OwnMariaDb {
 public:
  // Creates the files and begins to start the server, in some 2 s. Unavailable: MariaDB is not installed, or its files
  // cannot be created.
  static absl::StatusOr<std::unique_ptr<OwnMariaDb>> Start();
  ~OwnMariaDb();

  // For FleetInventoryOptions::ledger.
  std::string url() const { return "mysql://root@localhost/shop?socket=" + directory_.url_path() + "/socket"; }
  std::string socket() const { return directory_.path() + "/socket"; }

  // Whether it answers, without waiting. Unavailable: it has ended, or does not start in time; the message is its own.
  absl::StatusOr<bool> Answers();
  // A connection to "shop".
  absl::StatusOr<std::unique_ptr<MariaDbClient>> Connect() const { return MariaDbClient::Connect(socket(), "shop"); }

  // Kills the server.
  void Kill();
  // Begins to start a killed server again, with its data.
  absl::Status Restart();

 private:
  explicit OwnMariaDb(TempDirectory directory) : directory_(std::move(directory)) {}
  absl::Status Install();

  const TempDirectory directory_;
  std::optional<Process> server_;
  absl::Time start_limit_ = absl::InfiniteFuture();
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_OWN_MARIADB_H_
