#include "cache/policies.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <list>
#include <memory>
#include <vector>

#include "eviction.h"

namespace stockade::bench {
namespace {

using Order = std::list<uint32_t>;

// Counts as hits the requests for which `ask` is true.
template <typename Ask>
double HitRatio(Requests requests, Ask ask) {
  size_t hits = 0;
  for (const uint32_t key : requests.keys) hits += ask(key) ? 1 : 0;
  return 100.0 * static_cast<double>(hits) / static_cast<double>(requests.keys.size());
}

class PlainS3Fifo {
 public:
  PlainS3Fifo(size_t key_count, size_t room)
      : room_(room), small_room_(std::max<size_t>(room / 10, 1)), main_room_(room - small_room_), keys_(key_count) {}

  bool Ask(uint32_t key) {
    Key& asked = keys_[key];
    if (asked.place != Place::kOut) {
      asked.uses = std::min(asked.uses + 1, 3);
      return true;
    }
    while (small_.size() + main_.size() >= room_) {
      if (!small_.empty() && (small_.size() >= small_room_ || main_.empty())) {
        EvictFromSmall();
      } else {
        EvictFromMain();
      }
    }
    const bool is_ghost = asked.ghost != 0 && evictions_ - asked.ghost < main_room_;
    asked = {.place = is_ghost ? Place::kMain : Place::kSmall};
    (is_ghost ? main_ : small_).push_back(key);
    return false;
  }

 private:
  enum class Place : uint8_t { kOut, kSmall, kMain };
  struct Key {
    Place place = Place::kOut;
    int uses = 0;
    size_t ghost = 0;  // Which eviction from small this was, counted from 1; 0: none.
  };

  void EvictFromSmall() {
    while (!small_.empty()) {
      const uint32_t key = small_.front();
      small_.pop_front();
      if (keys_[key].uses <= 1) {
        keys_[key] = {.ghost = ++evictions_};
        return;
      }
      keys_[key] = {.place = Place::kMain};
      main_.push_back(key);
      if (main_.size() > main_room_) return EvictFromMain();
    }
  }

  void EvictFromMain() {
    while (!main_.empty()) {
      const uint32_t key = main_.front();
      main_.pop_front();
      if (keys_[key].uses == 0) {
        keys_[key] = {};
        return;
      }
      --keys_[key].uses;
      main_.push_back(key);
    }
  }

  const size_t room_;
  const size_t small_room_;
  const size_t main_room_;
  std::vector<Key> keys_;
  std::deque<uint32_t> small_, main_;  // Oldest first.
  size_t evictions_ = 0;
};

}  // namespace

double LruHitRatio(Requests requests, size_t room) {
  Order order;  // Used last first.
  std::vector<Order::iterator> places(requests.key_count, order.end());
  return HitRatio(requests, [&](uint32_t key) {
    if (places[key] != order.end()) {
      order.splice(order.begin(), order, places[key]);
      return true;
    }
    if (order.size() == room) {
      places[order.back()] = order.end();
      order.pop_back();
    }
    places[key] = order.insert(order.begin(), key);
    return false;
  });
}

double SieveHitRatio(Requests requests, size_t room) {
  Order order;  // Newest first.
  std::vector<Order::iterator> places(requests.key_count, order.end());
  std::vector<bool> visited(requests.key_count);
  auto hand = order.end();  // Moves from old to new; at the end it starts again at the oldest.
  const auto newer = [&](Order::iterator at) { return at == order.begin() ? order.end() : std::prev(at); };
  return HitRatio(requests, [&](uint32_t key) {
    if (places[key] != order.end()) {
      visited[key] = true;
      return true;
    }
    if (order.size() == room) {
      if (hand == order.end()) hand = std::prev(order.end());
      while (visited[*hand]) {
        visited[*hand] = false;
        hand = newer(hand);
        if (hand == order.end()) hand = std::prev(order.end());
      }
      const auto victim = hand;
      hand = newer(hand);
      places[*victim] = order.end();
      order.erase(victim);
    }
    places[key] = order.insert(order.begin(), key);
    visited[key] = false;
    return false;
  });
}

double S3FifoHitRatio(Requests requests, size_t room) {
  PlainS3Fifo cache(requests.key_count, room);
  return HitRatio(requests, [&](uint32_t key) { return cache.Ask(key); });
}

double OurHitRatio(Requests requests, size_t room, size_t shards) {
  using cache_internal::S3Fifo;
  using cache_internal::Slab;
  using cache_internal::Slot;
  Slab slab;
  slab.Use(Slab::TypeOf<Slot>());
  std::deque<S3Fifo> queues;
  for (size_t i = 0; i < shards; ++i) queues.emplace_back(slab);
  std::vector<bool> held(requests.key_count);
  std::vector<uint32_t> ids(requests.key_count);  // By key.
  for (size_t key = 0; key < ids.size(); ++key) {
    ids[key] = slab.Take();
    slab[ids[key]].hash = static_cast<uint32_t>(key);
    slab[ids[key]].weight = 1;
  }
  size_t count = 0;
  size_t next_victim = 0;
  return HitRatio(requests, [&](uint32_t key) {
    Slot& slot = slab[ids[key]];
    if (held[key]) {
      slot.Touch();
      return true;
    }
    held[key] = true;
    queues[(key * 0x9E3779B97F4A7C15u >> 32) & (shards - 1)].Insert(ids[key]);
    for (++count; count > room;) {
      const uint32_t victim = queues[next_victim++ & (shards - 1)].Evict(&slot);
      if (victim == 0) continue;
      held[slab[victim].hash] = false;
      --count;
    }
    return false;
  });
}

}  // namespace stockade::bench
