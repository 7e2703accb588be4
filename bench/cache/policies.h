#ifndef STOCKADE_BENCH_CACHE_POLICIES_H_
#define STOCKADE_BENCH_CACHE_POLICIES_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace stockade::bench {

// Requests for keys from 0 to `key_count` - 1.
struct Requests {
  std::span<const uint32_t> keys;
  size_t key_count = 0;
};

// The share of the requests that hit a cache which has room for `room` keys, in per cent. Each cache begins empty.

double LruHitRatio(Requests requests, size_t room);

// Zhang et al., "SIEVE is simpler than LRU", NSDI 2024.
double SieveHitRatio(Requests requests, size_t room);

// Algorithm 1 of Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023: a tenth is the small
// queue's, and what it evicts needed more than one use to go on to main; there are as many ghosts as main has room for.
double S3FifoHitRatio(Requests requests, size_t room);

// Ours, as a cache drives it: `shards` (a power of two), the room shared by all, shards evict in turn.
double OurHitRatio(Requests requests, size_t room, size_t shards);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_CACHE_POLICIES_H_
