#ifndef STOCKADE_TESTS_REDIS_SUPPORT_SENTINEL_SET_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_SENTINEL_SET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "redis/support/redis_server.h"

namespace stockade::testing {

struct SentinelSetOptions {
  RedisServerOptions server = {};                 // Of the master and the replicas.
  std::vector<std::string> sentinel_config = {};  // More lines for each Sentinel: passwords and the like.
  // What answers nothing for so long is down. On a busy machine that happens to a master that is well.
  absl::Duration down_after = absl::Milliseconds(400);
  // Each has a server and a Sentinel.
  std::array<NetworkHost, 3> hosts = {};
};

// A master called "mymaster" with two replicas, and three Sentinels of which two must agree. What Sentinels do every 1
// to 10 seconds, these do every 0.1 to 0.4, by SENTINEL DEBUG. For one thread.
class SentinelSet {
 public:
  // Blocks until each Sentinel knows both replicas and both other Sentinels, about a second.
  explicit SentinelSet(SentinelSetOptions options = {});

  std::string url() const;       // redis+sentinel://127.0.0.1:p1,127.0.0.1:p2,127.0.0.1:p3/mymaster
  uint16_t master_port() const;  // As the Sentinels say that run; it is the same of each once a call here has returned.
  RedisServer& master() { return ServerOn(master_port()); }
  RedisServer& server(size_t index) { return *servers_[index]; }      // 0 to 2; 0 is the first master.
  RedisServer& sentinel(size_t index) { return *sentinels_[index]; }  // 0 to 2.
  RedisServer& ServerOn(uint16_t port);

  // Each blocks until all is settled as the constructor leaves it, except servers that are down.
  void Failover();    // Asks a Sentinel for it: the old master ends as a replica of the new one. About 3 seconds.
  void KillMaster();  // The Sentinels find it out and promote a replica. 3 to 7 seconds.
  void RestartAll();  // Everything at once; the master stays the same one.
  // Blocks in the same way, after a server or Sentinel was killed, paused or restarted.
  void AwaitSettled();
  // After Restart() of a Sentinel, which loses the settings that make it fast.
  void Hasten(RedisServer& sentinel);

 private:
  bool Settled() const;

  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<RedisServer>> sentinels_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_SENTINEL_SET_H_
