#ifndef STOCKADE_BENCH_FLEET_FLEETS_H_
#define STOCKADE_BENCH_FLEET_FLEETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fleet/server_meter.h"
#include "harness/suite.h"
#include "peers/peer_process.h"

namespace stockade::bench {

inline constexpr size_t kFleetProcesses = 8;
inline constexpr size_t kFleetThreads = 16;

// A program of process.cc, or a driver that speaks the same lines, and its arguments.
using FleetCommand = std::vector<std::string>;
std::vector<std::unique_ptr<PeerProcess>> StartFleet(const FleetCommand& command, size_t processes);

// Processes that all get the same cold key at once.
class ColdFleet {
 public:
  // `url`: of the server whose load is measured; empty if there is none.
  ColdFleet(const FleetCommand& command, const std::string& url);

  // "loads", "last" (the last answer after the end of the last load, in ms) and "server" (Redis's processor time, ms).
  Figures Run(int64_t load_ms);

 private:
  std::vector<std::unique_ptr<PeerProcess>> processes_;
  std::unique_ptr<ServerMeter> meter_;
  uint64_t key_ = 0;
};

// Processes that have a value in memory, which another one invalidates.
class WatchingFleet {
 public:
  // `invalidate` is called with the key.
  WatchingFleet(const FleetCommand& command, const std::string& url, std::function<void(uint64_t key)> invalidate);

  // "last" (from before an invalidation until the last process has removed the value, the 99th percentile in ms) and
  // "server" (Redis's processor time in us for one key that all read and that is invalidated).
  Figures Run(int64_t invalidations);

 private:
  ServerMeter meter_;
  const std::function<void(uint64_t key)> invalidate_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
  uint64_t key_ = 0;
};

// Processes that all get the same many cold keys at once, each by one call, beside threads that spin.
class ManyKeysFleet {
 public:
  static constexpr size_t kProcesses = 4;
  static constexpr size_t kSpinning = 2;

  ManyKeysFleet(const FleetCommand& command, uint64_t count)
      : count_(count), processes_(StartFleet(command, kProcesses)) {}

  // "loads" of all, and "time" (until the last call has returned, in ms).
  Figures Run();

 private:
  const uint64_t count_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
  uint64_t first_ = 0;
};

// Processes that wait for the load of a process that is killed.
class TakeOverFleet {
 public:
  // `command` is that of the killed process, too.
  TakeOverFleet(FleetCommand command, const std::string& url, int64_t lease_ms);

  // "time" (from the kill to the next load, in ms), "leases" (the same divided by the lease) and "server" (Redis's
  // processor time meanwhile, ms).
  Figures Run();

 private:
  std::unique_ptr<PeerProcess> StartOne() const;

  const FleetCommand command_;
  const double lease_ms_;
  ServerMeter meter_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
  uint64_t key_ = 0;
};

// A process that has many keys in memory, whose connections are cut.
class CutProcess {
 public:
  // The process names its connections "reader". `change` is called with keys that the process has in memory and their
  // new value, while it is cut off.
  using Change = std::function<void(ServerMeter& meter, const std::vector<uint64_t>& keys, uint64_t value)>;
  CutProcess(const FleetCommand& command, const std::string& url, uint64_t count, Change change);

  // "commands" of the server until all is in memory again and the changed keys are the new ones, "time" (ms) and
  // "server" (Redis's processor time, ms).
  Figures Run();

 private:
  const uint64_t count_;
  const Change change_;
  ServerMeter meter_;
  std::unique_ptr<PeerProcess> process_;
  uint64_t value_ = 1;
};

int64_t SteadyNow();  // In nanoseconds, as the processes have it.

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_FLEETS_H_
