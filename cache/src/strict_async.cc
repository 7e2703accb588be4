// GetAsync() of a strict cache.
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

#include "key_locks.h"
#include "shard.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

void CacheCore::StartStrictAsync(const AsyncPtr& async) noexcept {
  std::optional<Answer> answer;
  try {
    answer = FindOrQueue(async);
  } catch (...) {
    answer = ThrownError();
  }
  if (!answer.has_value()) return ScheduleRead(async->key.shard);
  CountRequest(async->call);
  Deliver(async, *std::move(answer));
}

// Nothing: the call is in `ready` of its shard.
std::optional<Answer> CacheCore::FindOrQueue(const AsyncPtr& async) {
  const KeyAt at = async->key.at();
  Shard& shard = shards_[at.shard];
  CacheCall& call = async->call;
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
void CacheCore::ScheduleRead(size_t shard) noexcept {
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
AsyncPtr CacheCore::TakeReady(size_t index) {
  Shard& shard = shards_[index];
  const ShardLock lock = Lock(shard);
  if (shard.ready.empty()) return nullptr;
  AsyncPtr async = shard.ready.front();
  LeaveLobby(*async);
  return async;
}

// On a thread of the pool.
void CacheCore::ReadNext(size_t shard) noexcept {
  const AsyncPtr async = TakeReady(shard);
  if (async == nullptr) return;
  std::optional<Answer> answer;
  try {
    ReadHold reading;  // Ends before the callback runs.
    bool holds = TakeReadLock(async->key.hash, Instant::InfinitePast(), reading);
    if (!holds && Park(async)) return;
    if (!holds) holds = TakeReadLock(async->key.hash, async->call.deadline, reading);
    answer = holds ? Find(async->key.at(), async->call, nullptr) : DeadlineError();
  } catch (...) {
    answer = ThrownError();
  }
  CountRequest(async->call);
  Deliver(async, *std::move(answer));
}

// Has the call wait for the end of an update. False: none of the key is under way, or the call has waited for one.
bool CacheCore::Park(const AsyncPtr& async) {
  Shard& shard = shards_[async->key.shard];
  const ShardLock lock = Lock(shard);
  const auto updates = shard.updates.find(async->key.hash);
  if (updates == shard.updates.end() || async->parked || shard.closed) return false;
  EnterLobby(async, updates->second.parked);
  async->parked = true;
  return true;
}

// The call waits in `lobby`, where the timers look after it. With the shard's mutex held, as the next one.
void CacheCore::EnterLobby(const AsyncPtr& async, std::list<AsyncPtr>& lobby) {
  async->place = lobby.insert(lobby.end(), async);
  async->lobby = &lobby;
  try {
    WatchAsync(async);
  } catch (...) {
    LeaveLobby(*async);
    throw;
  }
}

void CacheCore::LeaveLobby(AsyncCall& async) {
  StopWatching(async);
  std::exchange(async.lobby, nullptr)->erase(async.place);
}

}  // namespace stockade::cache_internal
