#ifndef STOCKADE_EXAMPLES_COMMON_OWN_REDIS_H_
#define STOCKADE_EXAMPLES_COMMON_OWN_REDIS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process.h"
#include "common/temp_directory.h"

namespace examples {

// A redis-server in a temporary directory, with a Unix socket only: no port can be taken. It writes its data to a file
// only when a client sends SAVE. Stopped, and the directory removed, with the object.
class OwnRedis {
 public:
  // Blocks until it answers. Unavailable: there is no redis-server, or it does not start.
  static absl::StatusOr<std::unique_ptr<OwnRedis>> Start();
  ~OwnRedis();

  std::string url() const { return "unix://" + directory_.url_path() + "/socket"; }

  // Kills the server.
  void Kill();
  // Stops the server where it is, and lets it go on.
  void Pause();
  void Continue();
  // Starts a killed server again, with the same URL and with what the last SAVE has written, or empty if there was
  // none. Blocks until it answers. Errors as for Start().
  absl::Status Restart();

 private:
  OwnRedis(TempDirectory directory, Process server) : directory_(std::move(directory)), server_(std::move(server)) {}
  static absl::StatusOr<Process> StartServer(const std::string& directory);
  absl::Status AwaitAnswer();

  const TempDirectory directory_;
  Process server_;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_OWN_REDIS_H_
