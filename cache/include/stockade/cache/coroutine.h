#ifndef STOCKADE_CACHE_COROUTINE_H_
#define STOCKADE_CACHE_COROUTINE_H_

#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/coroutine.h"
#include "stockade/base/duration.h"
#include "stockade/cache/loading_cache.h"

// Lookups for coroutines:
//
//   const absl::StatusOr<CacheHandle<Page>> page = co_await GetAwait(pages, id, on, absl::Milliseconds(50));
namespace stockade {
namespace cache_internal {

// Becomes the callback of GetOrAsync() only if the call has to wait; then it also has it end with `on`.
template <typename Cache>
class AwaitedGet {
 public:
  using Result = absl::StatusOr<typename Cache::Handle>;
  using Pending = PendingResult<Result>;
  static constexpr AwaitedCall kCall = {.name = "GetAwait()", .unknown = ""};

  AwaitedGet(const AwaitOn& on, CacheGetOptions& options) : on_(&on), options_(&options) {}

  // The cache looks at the options again after this.
  operator typename Cache::AsyncCallback() && {  // NOLINT(google-explicit-constructor): that is its use.
    call_ = std::make_shared<Pending>(kCall, *on_);
    if (const absl::Status late = call_->MayBegin(); late.ok()) {
      options_->stop = call_->stop();
    } else {  // Only what is cached.
      call_->Answer(late);
      options_->timeout = absl::ZeroDuration();
    }
    return AnswerAwaiter<Result>(call_);
  }

  // If the call has to wait.
  std::shared_ptr<Pending> TakeCall() { return std::move(call_); }

 private:
  const AwaitOn* on_;
  CacheGetOptions* options_;
  std::shared_ptr<Pending> call_;
};

// `set` sets the options. They are made here, because a copy of what was just stored costs more than a hit.
template <typename Cache, typename Key, typename Set>
[[gnu::always_inline]] inline Awaiter<typename AwaitedGet<Cache>::Result> BeginGet(Cache& cache, const Key& key,
                                                                                   const AwaitOn& on, const Set& set) {
  using Get = AwaitedGet<Cache>;
  return Awaiter<typename Get::Result>([&](std::shared_ptr<typename Get::Pending>& call) {
    CacheGetOptions options;
    set(options);
    Get get(on, options);
    auto at_once = cache.GetOrAsync(key, CallbackExecutor(), std::move(get), options);
    if (!at_once.has_value()) {
      call = get.TakeCall();
      call->Watch();
    }
    return at_once;
  });
}

}  // namespace cache_internal

// LoadingCache::GetOrAsync() for co_await, which returns absl::StatusOr<CacheHandle<Value>>. The call begins here, so
// two of them may be under way before the first one is awaited; `key` is not used afterwards. A hit, and all that
// GetOrAsync() answers at once, does not suspend the coroutine, allocates nothing, and looks at neither on.stop nor
// on.deadline. The statuses are those of Get(). In addition, at once, while the load goes on for other calls:
//   Cancelled         on.stop was requested.
//   DeadlineExceeded  on.deadline passed, or `timeout` on the cache's clock.
//
// The cache may be destroyed while the coroutine waits, which is then answered with Cancelled.
//
// g++ 12 destroys an aggregate twice that is made within a co_await expression, so a key that is an aggregate needs a
// name of its own: temporaries do not compile.
template <typename Key, typename Value, typename Hash, typename Eq>
base_internal::Awaiter<absl::StatusOr<CacheHandle<Value>>> GetAwait(LoadingCache<Key, Value, Hash, Eq>& cache,
                                                                    const std::type_identity_t<Key>& key,
                                                                    const AwaitOn& on) {
  return cache_internal::BeginGet(cache, key, on, [](CacheGetOptions&) {});
}
template <typename Key, typename Value, typename Hash, typename Eq>
base_internal::Awaiter<absl::StatusOr<CacheHandle<Value>>> GetAwait(LoadingCache<Key, Value, Hash, Eq>& cache,
                                                                    const std::type_identity_t<Key>& key,
                                                                    const AwaitOn& on, Duration timeout) {
  return cache_internal::BeginGet(cache, key, on, [&](CacheGetOptions& options) { options.timeout = timeout; });
}

template <typename Key, typename Value, typename Hash, typename Eq, typename... Timeout>
  requires(std::is_aggregate_v<Key> && !std::is_trivially_destructible_v<Key>)
void GetAwait(LoadingCache<Key, Value, Hash, Eq>& cache, const std::type_identity_t<Key>&& key, const AwaitOn& on,
              const Timeout&... timeout) = delete;

}  // namespace stockade

#endif  // STOCKADE_CACHE_COROUTINE_H_
