#ifndef STOCKADE_ASIO_CACHE_H_
#define STOCKADE_ASIO_CACHE_H_

#include <functional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "stockade/asio/calls.h"
#include "stockade/base/coroutine.h"
#include "stockade/base/duration.h"
#include "stockade/cache/loading_cache.h"

namespace stockade {
inline namespace STOCKADE_ASIO_FLAVOR {
namespace asio_internal {

template <typename Cache, typename Key>
class GetStart {
 public:
  using Result = absl::StatusOr<typename Cache::Handle>;
  static constexpr AwaitedCall kCall = {.name = "AsyncGet()", .unknown = ""};

  GetStart(Cache& cache, const Key& key, const CacheGetOptions& options)
      : cache_(&cache), key_(key), options_(options) {}

  const std::stop_token& user_stop() const { return options_.stop; }
  void Begin(std::stop_token stop, AsioAnswer<Result> answer) && {
    options_.stop = std::move(stop);
    auto at_once = cache_->GetOrAsync(key_, CallbackExecutor(), std::move(answer), options_);
    // NOLINTNEXTLINE(bugprone-use-after-move): it takes the callback only if the call has to wait.
    if (at_once.has_value()) answer(*std::move(at_once));
  }

 private:
  Cache* cache_;
  Key key_;
  CacheGetOptions options_;
};

}  // namespace asio_internal

// A cache whose lookups take a completion token of Asio:
//
//   const AsioCache pages(io.get_executor(), cache);
//   const absl::StatusOr<CacheHandle<Page>> page = co_await pages.AsyncGet(id, absl::Milliseconds(50), use_awaitable);
//
// A copy uses the same cache. Thread-safe. The cache, and the context of the executor, must exist when a call is made.
// calls.h says when handlers run.
template <typename Key, typename Value, typename Hash = std::hash<Key>, typename Eq = std::equal_to<Key>>
class AsioCache {
 public:
  using Cache = LoadingCache<Key, Value, Hash, Eq>;  // The cache of an object of this class.
  using Handle = CacheHandle<Value>;                 // LoadingCache::Handle.
  // As in Asio's own objects.
  using executor_type = asio_internal::net::any_io_executor;

  // `executor` runs the handlers that have none of their own. Throws bad_executor if it is empty.
  AsioCache(executor_type executor, Cache& cache) : context_(std::move(executor)), cache_(&cache) {}
  // That of the constructor.
  executor_type get_executor() const noexcept { return context_.executor; }

  // LoadingCache::GetAsync(), with the completion signature void(absl::StatusOr<Handle>). The statuses are those of
  // Get(). In addition, at once, while the load goes on for other calls:
  //   Cancelled  the cancellation slot of the handler was signalled, with any type, or options.stop was requested.
  // A hit completes through the handler's executor, too: where that costs too much, call GetIfPresent() before.
  template <typename Token>
  auto AsyncGet(const Key& key, const CacheGetOptions& options, Token&& token) const {
    return asio_internal::BeginCall<asio_internal::CancelledBy::kAny>(
        context_, asio_internal::GetStart<Cache, Key>(*cache_, key, options), std::forward<Token>(token));
  }
  // With CacheGetOptions::timeout alone.
  template <typename Token>
  auto AsyncGet(const Key& key, Duration timeout, Token&& token) const {
    CacheGetOptions options;
    options.timeout = timeout;
    return AsyncGet(key, options, std::forward<Token>(token));
  }
  // With the defaults.
  template <typename Token>
  auto AsyncGet(const Key& key, Token&& token) const {
    const CacheGetOptions options;
    return AsyncGet(key, options, std::forward<Token>(token));
  }

  // g++ 12 destroys an aggregate twice that is made within a co_await expression, so options, and a key that is an
  // aggregate, need names of their own.
  template <typename Token>
  void AsyncGet(const Key& key, const CacheGetOptions&& options, Token&& token) const = delete;
  template <typename... More>
    requires(std::is_aggregate_v<Key> && !std::is_trivially_destructible_v<Key>)
  void AsyncGet(const Key&& key, More&&... more) const = delete;

 private:
  asio_internal::AsioContext context_;
  Cache* cache_;
};

}  // namespace STOCKADE_ASIO_FLAVOR
}  // namespace stockade

#endif  // STOCKADE_ASIO_CACHE_H_
