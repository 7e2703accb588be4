#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_STRICT_ASYNC_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_STRICT_ASYNC_H_

// Bodies of CacheCore: GetAsync() of a strict cache. Included by cache_core.h.
//
// A call that takes a load holds its key's lock until the load has ended, and may have to wait for the lock. The
// calling thread must not wait, and a thread of the user's executors must not, because the lock's holder may wait for
// one of those. So GetAsync() answers the call itself if that takes neither a wait nor a load. Every other call goes to
// a thread of async_read_pool_.
//
// A thread of that pool does not wait for an update either. Otherwise two calls for a key that is being written would
// delay the calls for all other keys. It parks the call, and the update schedules it again when it has released the
// lock. A call that has been parked once and then finds the next update under way waits for the lock, whose queue is
// fair. So a series of updates cannot starve it.

#include <cstddef>
#include <optional>

#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// Lives as long as an update of a strict cache has, or waits for, its key's lock.
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore<Key, Value, Hash, Eq>::UpdateMark {
 public:
  UpdateMark(CacheCore& core, const HashedKey& at) : core_(core), hash_(at.hash), shard_(at.shard) {
    const ShardLock lock = Lock(core_.shards_[shard_]);
    ++core_.shards_[shard_].updates[hash_].under_way;
  }
  // The lock must be released.
  ~UpdateMark() {
    Shard& shard = core_.shards_[shard_];
    size_t woken = 0;
    {
      const ShardLock lock = Lock(shard);
      const auto updates = shard.updates.find(hash_);
      std::list<AsyncPtr>& parked = updates->second.parked;
      for (const AsyncPtr& async : parked) async->lobby = &shard.ready;
      woken = parked.size();
      shard.ready.splice(shard.ready.end(), parked);
      if (--updates->second.under_way == 0) shard.updates.erase(updates);
    }
    for (; woken > 0; --woken) core_.ScheduleRead(shard_);
  }
  UpdateMark(const UpdateMark&) = delete;
  UpdateMark& operator=(const UpdateMark&) = delete;

 private:
  CacheCore& core_;
  const uint64_t hash_;
  const size_t shard_;
};

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::StartStrictAsync(const AsyncPtr& async) noexcept {
  std::optional<Answer> answer;
  try {
    answer = FindOrQueue(async);
  } catch (...) {
    answer = ThrownError();
  }
  if (!answer.has_value()) return ScheduleRead(async->shard);
  CountRequest(async->call);
  Deliver(async, *std::move(answer));
}

// Nothing: the call is in `ready` of its shard.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindOrQueue(const AsyncPtr& async) -> std::optional<Answer> {
  const HashedKey at = KeyOf(*async);
  Shard& shard = shards_[at.shard];
  Call& call = async->call;
  const Instant now = Now();
  std::optional<Answer> answer;
  std::optional<RefreshTrigger> due;
  {
    ReadHold reading;  // Ends before user code runs, which may update the key.
    if (TakeReadLock(at.hash, Instant::InfinitePast(), reading)) {
      const ShardLock lock = Lock(shard);
      answer = Serve(at, now, true, call.result, due);
    }
  }
  if (due.has_value()) StartRefresh(at, *due, nullptr);
  if (!answer.has_value()) answer = Expired(call, now);
  if (answer.has_value()) return answer;
  absl::Status started = async_read_pool_.Start();
  if (started.ok() && (call.deadline != Instant::InfiniteFuture() || call.stop.stop_possible())) {
    started = timers_->Start();
  }
  if (!started.ok()) return started;
  const ShardLock lock = Lock(shard);
  if (shard.closed) return CancelledError();
  EnterLobby(async, shard.ready);
  return std::nullopt;
}

// Has a thread of the pool take the shard's next call. There is such a task for each call in `ready`, and there may be
// more, because calls leave it when their deadlines pass.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::ScheduleRead(size_t shard) noexcept {
  try {
    async_read_pool_.Schedule([this, gate = gate_, shard] {
      CallGate::Call inside(*gate, shard);
      if (inside.inside()) ReadNext(shard);
    });
  } catch (...) {  // No memory.
    Answer thrown = ThrownError();
    const AsyncPtr async = TakeReady(shard);
    if (async == nullptr) return;
    CountRequest(async->call);
    Deliver(async, std::move(thrown));
  }
}

// Null: all were answered meanwhile.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::TakeReady(size_t index) -> AsyncPtr {
  Shard& shard = shards_[index];
  const ShardLock lock = Lock(shard);
  if (shard.ready.empty()) return nullptr;
  AsyncPtr async = shard.ready.front();
  LeaveLobby(*async);
  return async;
}

// On a thread of the pool.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::ReadNext(size_t shard) noexcept {
  const AsyncPtr async = TakeReady(shard);
  if (async == nullptr) return;
  std::optional<Answer> answer;
  try {
    ReadHold reading;  // Ends before the callback runs.
    bool holds = TakeReadLock(async->hash, Instant::InfinitePast(), reading);
    if (!holds && Park(async)) return;
    if (!holds) holds = TakeReadLock(async->hash, async->call.deadline, reading);
    answer = holds ? Find(KeyOf(*async), async->call, nullptr) : DeadlineError();
  } catch (...) {
    answer = ThrownError();
  }
  CountRequest(async->call);
  Deliver(async, *std::move(answer));
}

// Has the call wait for the end of an update. False: none of the key is under way, or the call has waited for one.
template <typename Key, typename Value, typename Hash, typename Eq>
bool CacheCore<Key, Value, Hash, Eq>::Park(const AsyncPtr& async) {
  Shard& shard = shards_[async->shard];
  const ShardLock lock = Lock(shard);
  const auto updates = shard.updates.find(async->hash);
  if (updates == shard.updates.end() || async->parked || shard.closed) return false;
  EnterLobby(async, updates->second.parked);
  async->parked = true;
  return true;
}

// The call waits in `lobby`, where the timers look after it. With the shard's mutex held, as the next one.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::EnterLobby(const AsyncPtr& async, std::list<AsyncPtr>& lobby) {
  async->place = lobby.insert(lobby.end(), async);
  async->lobby = &lobby;
  try {
    WatchAsync(async);
  } catch (...) {
    LeaveLobby(*async);
    throw;
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::LeaveLobby(Async& async) {
  StopWatching(async);
  std::exchange(async.lobby, nullptr)->erase(async.place);
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_STRICT_ASYNC_H_
