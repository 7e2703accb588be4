#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_STEPPED_CACHE_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_STEPPED_CACHE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stockade/cache/loading_cache.h"

namespace stockade::testing {

// The cache of a schedule, whatever the type of its values: to callers and loaders a value is its id.
class SteppedCache {
 public:
  using Answer = absl::StatusOr<int64_t>;
  // Says what a batch has for a key.
  using Add = std::function<void(int key, const Answer& result, EntryOptions entry)>;
  struct Loaders {
    std::function<Answer(int key, LoadContext& context)> load;
    std::function<absl::Status(const std::vector<int>& keys, const Add& add)> load_all;  // May be empty.
  };

  virtual ~SteppedCache() = default;

  virtual Answer Get(int key, const CacheGetOptions& options) = 0;
  virtual Answer GetEntry(int key, const CacheGetOptions& options) = 0;
  virtual std::vector<Answer> GetAll(const std::vector<int>& keys, const CacheGetOptions& options) = 0;
  virtual void GetAsync(int key, Executor& executor, std::function<void(const Answer&)> done,
                        const CacheGetOptions& options) = 0;
  // Calls `done` itself if it need not wait.
  virtual void GetOrAsync(int key, Executor& executor, std::function<void(const Answer&)> done,
                          const CacheGetOptions& options) = 0;
  virtual std::optional<int64_t> GetIfPresent(int key) = 0;
  // NotFound: an absence.
  virtual std::optional<Answer> Peek(int key) = 0;
  virtual void Put(int key, int64_t id, EntryOptions entry) = 0;
  virtual void PutAll(const std::vector<std::pair<int, int64_t>>& ids, EntryOptions entry) = 0;
  virtual void Refresh(int key) = 0;
  virtual void Invalidate(int key) = 0;
  virtual void InvalidateKeys(const std::vector<int>& keys) = 0;
  virtual void InvalidateTag(std::string_view tag) = 0;
  virtual void InvalidateAll() = 0;
  virtual int64_t size() const = 0;
  virtual int64_t weight() const = 0;

  // Destroys the cache, then the handles. Returns how many values still live.
  virtual int64_t End() = 0;
  // Handles whose value was no longer what it had been when they went.
  virtual int64_t spoilt() const = 0;
};

// Values that handles have copies of.
struct CopiedId {
  CopiedId(int64_t i, int64_t*) : id(i) {}

  int64_t id;
};

// Values that handles pin. Counts those that live.
class PinnedId {
 public:
  PinnedId(int64_t i, int64_t* live) : id(i), live_(live) { ++*live; }
  PinnedId(PinnedId&& other) noexcept : id(other.id), live_(other.live_) { ++*live_; }
  ~PinnedId() {
    id = -1;
    --*live_;
  }

  int64_t id;

 private:
  int64_t* live_;
};

// Keeps the last handles that callers got, and drops them on whichever thread comes next: what is pinned outlasts
// calls and entries. One thread runs at a time, so nothing here is atomic.
template <typename Value>
class SteppedCacheOf : public SteppedCache {
 public:
  SteppedCacheOf(LoadingCacheOptions options, const Loaders& loaders)
      : cache_(std::make_unique<Cache>(std::move(options), Callbacks(loaders))) {}

  Answer Get(int key, const CacheGetOptions& options) override { return Keep(cache_->Get(key, options)); }
  Answer GetEntry(int key, const CacheGetOptions& options) override {
    absl::StatusOr<CacheEntry<Value>> entry = cache_->GetEntry(key, options);
    if (!entry.ok()) return entry.status();
    return Keep(absl::StatusOr<Handle>(std::move(entry->value)));
  }
  std::vector<Answer> GetAll(const std::vector<int>& keys, const CacheGetOptions& options) override {
    std::vector<Answer> answers;
    for (auto& handle : cache_->GetAll(keys, options)) answers.push_back(Keep(std::move(handle)));
    return answers;
  }
  void GetAsync(int key, Executor& executor, std::function<void(const Answer&)> done,
                const CacheGetOptions& options) override {
    cache_->GetAsync(
        key, executor, [this, done = std::move(done)](absl::StatusOr<Handle> handle) { done(Keep(std::move(handle))); },
        options);
  }
  void GetOrAsync(int key, Executor& executor, std::function<void(const Answer&)> done,
                  const CacheGetOptions& options) override {
    const auto keep = [this, done = std::move(done)](absl::StatusOr<Handle> handle) { done(Keep(std::move(handle))); };
    std::optional<absl::StatusOr<Handle>> answer = cache_->GetOrAsync(key, executor, keep, options);
    if (answer.has_value()) keep(*std::move(answer));
  }
  std::optional<int64_t> GetIfPresent(int key) override {
    std::optional<Handle> handle = cache_->GetIfPresent(key);
    if (!handle.has_value()) return std::nullopt;
    return *Keep(*std::move(handle));
  }
  std::optional<Answer> Peek(int key) override {
    std::optional<CacheEntry<Value>> entry = cache_->Peek(key);
    if (!entry.has_value()) return std::nullopt;
    if (!entry->value) return Answer(absl::NotFoundError(""));
    return Keep(absl::StatusOr<Handle>(std::move(entry->value)));
  }
  void PutAll(const std::vector<std::pair<int, int64_t>>& ids, EntryOptions entry) override {
    std::vector<std::pair<int, Value>> values;
    for (const auto& [key, id] : ids) values.emplace_back(key, Value(id, &live_));
    cache_->PutAll(std::move(values), entry);
  }
  void Put(int key, int64_t id, EntryOptions entry) override { cache_->Put(key, Value(id, &live_), std::move(entry)); }
  void Refresh(int key) override { cache_->Refresh(key); }
  void Invalidate(int key) override { cache_->Invalidate(key); }
  void InvalidateKeys(const std::vector<int>& keys) override { cache_->InvalidateKeys(keys); }
  void InvalidateTag(std::string_view tag) override { cache_->InvalidateTag(tag); }
  void InvalidateAll() override { cache_->InvalidateAll(); }
  int64_t size() const override { return cache_->size(); }
  int64_t weight() const override { return cache_->weight(); }

  int64_t End() override {
    cache_.reset();
    while (!kept_.empty()) Drop();
    return live_;
  }
  int64_t spoilt() const override { return spoilt_; }

 private:
  using Cache = LoadingCache<int, Value>;
  using Handle = typename Cache::Handle;

  static constexpr size_t kKept = 8;  // More than a thread has pins.

  typename Cache::Callbacks Callbacks(const Loaders& loaders) {
    typename Cache::Callbacks callbacks;
    callbacks.load = [this, load = loaders.load](const int& key, LoadContext& context) -> absl::StatusOr<Value> {
      const Answer id = load(key, context);
      if (!id.ok()) return id.status();
      return Value(*id, &live_);
    };
    callbacks.codec.id = "id";  // Used if there is a tier.
    callbacks.codec.encode_value = [](const Value& value, std::string* bytes) {
      return cache_internal::EncodePlainly(value.id, bytes);
    };
    callbacks.codec.decode_value = [this](std::string_view bytes) -> absl::StatusOr<Value> {
      const absl::StatusOr<int64_t> id = cache_internal::DecodePlainly<int64_t>(bytes);
      if (!id.ok()) return id.status();
      return Value(*id, &live_);
    };
    if (!loaders.load_all) return callbacks;
    callbacks.load_all = [this, load_all = loaders.load_all](const std::vector<int>& keys,
                                                             BatchLoad<int, Value>& batch) {
      return load_all(keys, [&](int key, const Answer& result, EntryOptions entry) {
        if (result.ok()) {
          batch.Add(key, Value(*result, &live_), std::move(entry));
        } else {
          batch.Fail(key, result.status(), entry);
        }
      });
    };
    return callbacks;
  }

  Answer Keep(absl::StatusOr<Handle> handle) {
    if (!handle.ok()) return handle.status();
    const int64_t id = (*handle)->id;
    kept_.emplace_back(id, *std::move(handle));
    if (kept_.size() > kKept) Drop();
    return id;
  }

  void Drop() {
    if (kept_.front().second->id != kept_.front().first) ++spoilt_;
    kept_.pop_front();
  }

  int64_t live_ = 0;
  int64_t spoilt_ = 0;
  std::deque<std::pair<int64_t, Handle>> kept_;  // With the id that each had.
  std::unique_ptr<Cache> cache_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_STEPPED_CACHE_H_
