#ifndef STOCKADE_BENCH_FLEET_CROWD_H_
#define STOCKADE_BENCH_FLEET_CROWD_H_

#include <hiredis/hiredis.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace stockade::bench {

// Processes of a tier, of which only the connections are there: what each sends and receives is what a RedisCacheTier
// sends and receives while no cache is asked. One thread serves all, so that there is room for Redis beside them.
class Crowd {
 public:
  // `prefix`: of a tier that some process has connected to the Redis on `port`. Aborts if it cannot connect.
  Crowd(size_t processes, uint16_t port, const std::string& prefix, bool messages);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // Beats and reads messages until a stop is requested. Aborts if Redis refuses a heartbeat.
  void Run(const std::stop_token& stop);

  // Those received since the beginning. Any thread may call it.
  int64_t messages() const { return messages_.load(std::memory_order_relaxed); }

 private:
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  using Context = std::unique_ptr<redisContext, FreeContext>;
  struct Process {
    Context calls;  // Idle.
    Context service;
    Context subscriptions;  // Null without messages.
    absl::Time beat_at = {};
    bool is_waiting = false;
    int64_t applied = 0;
    int64_t heard = 0;  // The position up to which messages have come, or heartbeats.
    std::string sum = {};
  };

  Context Connect(uint16_t port) const;
  void Watch(redisContext& context, size_t process, bool is_service) const;
  // Writes what was appended to the context's buffer.
  static void Send(redisContext& context);
  void Beat(Process& process);
  void Hear(Process& process, std::string_view message);
  // Reads what has arrived.
  void Receive(Process& process, bool is_service);
  absl::Duration Interval();

  const std::string state_;
  const std::string journal_;
  std::string incarnation_ = {};
  const int epoll_;
  std::vector<Process> processes_;
  std::mt19937_64 random_{1};
  std::atomic<int64_t> messages_{0};
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_CROWD_H_
