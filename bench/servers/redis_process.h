#ifndef STOCKADE_BENCH_REDIS_CLIENT_REDIS_PROCESS_H_
#define STOCKADE_BENCH_REDIS_CLIENT_REDIS_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "peers/peer_process.h"
#include "servers/temp_dir.h"

namespace stockade::bench {

// A redis-server of this process on a free port of 127.0.0.1, which keeps nothing on the disk. It goes with this
// object, also if this process ends without destructors.
class RedisProcess {
 public:
  // OK: it can be run here. Otherwise the status is one line that says why not.
  static absl::Status Check();

  // Aborts if it does not start. With TLS it has no other port.
  enum class Tls { kWithout, kWith };
  explicit RedisProcess(Tls tls = Tls::kWithout);

  uint16_t port() const { return port_; }
  std::string url() const;
  // With TLS: its certificate, which nobody else has signed.
  std::string ca_file() const { return directory_->path() + "/cert.pem"; }

  // The number of commands that redis-benchmark sends per second, over four connections with 16 commands outstanding
  // each. If `random_below` is not 0, each "__rand_int__" in the words is a number below it, in twelve digits, drawn
  // for each command and place.
  double RedisBenchmark(const std::vector<std::string>& words, int64_t commands, int64_t random_below = 0) const;

 private:
  uint16_t port_ = 0;
  std::unique_ptr<TempDir> directory_;  // Null: without TLS.
  std::unique_ptr<PeerProcess> process_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_REDIS_CLIENT_REDIS_PROCESS_H_
