#ifndef STOCKADE_BENCH_FLEET_SERVER_METER_H_
#define STOCKADE_BENCH_FLEET_SERVER_METER_H_

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "measure/require.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {

// What a redis-server has done, from its INFO.
class ServerMeter {
 public:
  struct Reading {
    double processor_us = 0;  // Of the whole process: sockets, commands and housekeeping.
    double commands = 0;      // Those that scripts and transactions call are counted, too. Without the meter's own.
  };

  explicit ServerMeter(const std::string& url) : client_(Require(RedisClient::Connect(url), "RedisClient")) {}

  RedisClient& client() { return *client_; }

  // From the last call of Restart().
  Reading Since() {
    const Reading now = Read();
    return {.processor_us = now.processor_us - start_.processor_us, .commands = now.commands - start_.commands};
  }
  void Restart() { start_ = Read(); }

 private:
  Reading Read() {
    const RedisReply info = Require(client_->Run(RedisCommand("INFO").Arg("all")), "INFO");
    Reading reading = {.commands = static_cast<double>(-reads_++)};
    std::string_view text = info.text();
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size() - 1);
      const std::string line(text.substr(0, end));
      text.remove_prefix(end + 1);
      const size_t calls = line.find(":calls=");
      if (line.starts_with("used_cpu_sys:") || line.starts_with("used_cpu_user:")) {
        reading.processor_us += 1e6 * std::atof(line.c_str() + line.find(':') + 1);
      } else if (calls != std::string::npos && line.starts_with("cmdstat_")) {
        reading.commands += std::atof(line.c_str() + calls + 7);
      }
    }
    return reading;
  }

  std::unique_ptr<RedisClient> client_;
  int reads_ = 0;
  Reading start_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_SERVER_METER_H_
