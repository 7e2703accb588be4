#ifndef STOCKADE_BENCH_PEERS_PEER_DRIVER_H_
#define STOCKADE_BENCH_PEERS_PEER_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "measure/scale.h"
#include "peers/cache_workload.h"
#include "peers/peer_process.h"

namespace stockade::bench {

// The driver of `peer`, `<folder>/<peer>/driver`, as ./build leaves it. NotFound where it is not there: one line that
// says why and what helps, for Suite::LeaveOut().
absl::StatusOr<std::string> FindPeerDriver(const std::filesystem::path& folder, const std::string& peer);

inline constexpr int kCheckedDraws = 100'000;

// Starts `driver`, lets it fill its cache and warm up, and sees that it draws the keys that we draw. InvalidArgument:
// it does not.
absl::StatusOr<std::unique_ptr<PeerProcess>> StartPeerDriver(const std::string& driver, const CacheWorkload& workload,
                                                             const Scale& scale);

// One run of `span`: operations per second, of all threads.
absl::StatusOr<double> RunPeerDriver(PeerProcess& driver, absl::Duration span);

// The number of these keys that hit a cache of the driver's with room for `room` keys, which begins empty.
absl::StatusOr<int64_t> ReplayByPeerDriver(PeerProcess& driver, size_t room, std::span<const uint32_t> keys);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_PEERS_PEER_DRIVER_H_
