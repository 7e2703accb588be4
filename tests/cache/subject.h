#ifndef STOCKADE_TESTS_CACHE_SUBJECT_H_
#define STOCKADE_TESTS_CACHE_SUBJECT_H_

#include <gtest/gtest.h>

#include <future>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <ostream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "cache/manual_executor.h"
#include "cache/test_cache.h"

namespace stockade::testing {

enum class Asker { kGet, kGetOrLoad, kGetEntry, kGetAsync, kGetOrAsync, kGetAllOfOne, kGetAllOfThree };
inline constexpr Asker kAskers[] = {Asker::kGet,        Asker::kGetOrLoad,   Asker::kGetEntry,     Asker::kGetAsync,
                                    Asker::kGetOrAsync, Asker::kGetAllOfOne, Asker::kGetAllOfThree};
// They never load on the thread of their caller.
inline bool IsAsync(Asker asker) { return asker == Asker::kGetAsync || asker == Asker::kGetOrAsync; }

// What a parameterised suite varies.
struct Shape {
  Asker asker = Asker::kGet;
  bool boxed = false;   // Values are strings, which the cache pins. Otherwise they are ints, which it copies.
  bool pooled = false;  // Loads run on a load_executor. Otherwise they run on the threads of their callers.

  friend void PrintTo(const Shape& shape, std::ostream* out) {
    static constexpr const char* kNames[] = {"Get",        "GetOrLoad",   "GetEntry",     "GetAsync",
                                             "GetOrAsync", "GetAllOfOne", "GetAllOfThree"};
    *out << kNames[static_cast<size_t>(shape.asker)] << (shape.boxed ? "Boxed" : "Copied")
         << (shape.pooled ? "Pooled" : "");
  }
};
class ShapeTest : public ::testing::TestWithParam<Shape> {};
inline std::string NameOf(const ::testing::TestParamInfo<Shape>& info) { return ::testing::PrintToString(info.param); }

inline std::vector<Shape> Shapes(std::initializer_list<bool> pooled = {false, true}) {
  std::vector<Shape> shapes;
  for (const bool pools : pooled) {
    for (const Asker asker : kAskers) {
      if (IsAsync(asker) && !pools) continue;
      for (const bool boxed : {false, true}) shapes.push_back({asker, boxed, pools});
    }
  }
  return shapes;
}

// The answer to a call: its text is the value, the code of the error, or "nothing".
struct Answer {
  absl::Status status;
  std::string text = "nothing";
  const void* address = nullptr;  // Of the value.

  friend bool operator==(const Answer& answer, int value) { return answer.text == std::to_string(value); }
  friend bool operator==(const Answer& answer, std::string_view text) { return answer.text == text; }
  friend bool operator==(const Answer& answer, const absl::Status& error) { return answer.status == error; }
  friend void PrintTo(const Answer& answer, std::ostream* out) { *out << answer.text << " " << answer.status; }
};

using Pending = std::future<Answer>;

// One run of the loader for one key.
struct Load {
  const LoadTerms& terms;
  std::function<std::optional<int>()> previous;
  int key = 0;
  int number = 0;      // Counts the loads of the subject from 1.
  EntryOptions entry;  // For the result.
};

// A cache of any shape. Load n returns n, unless `outcome` or `load` says otherwise. Refreshes wait in `background`,
// unless the options name another executor. Keys are positive: GetAll() of three finds two others in the cache.
class Subject {
  template <typename Value>
  using Cache = LoadingCache<int, Value>;
  template <typename Value>
  static Value Made(int number) {
    if constexpr (std::is_same_v<Value, int>) return number;
    if constexpr (!std::is_same_v<Value, int>) return std::to_string(number);
  }
  template <typename Value>
  static std::optional<int> NumberAt(const Value* value) {
    return value == nullptr ? std::nullopt : std::optional<int>(std::stoi(absl::StrCat(*value)));
  }
  template <typename Value>
  static Answer AnswerOf(const absl::StatusOr<CacheHandle<Value>>& got) {
    if (!got.ok()) return {got.status(), CodeOf(got.status())};
    return {absl::OkStatus(), absl::StrCat(**got), got->get()};
  }

  absl::StatusOr<int> Run(Load& one) {
    if (one.key < 0) return one.key;
    std::unique_lock lock(mutex_);
    one.number = ++loads_;
    one.entry = entry;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_[one.number]; });
    lock.unlock();
    if (load) return load(one);
    if (!outcome.ok()) return outcome;
    return one.number;
  }
  template <typename Value>
  auto LoaderOf() {
    return [this](const int& key, ValueLoadContext<Value>& context) -> absl::StatusOr<Value> {
      Load one{.terms = context, .previous = [&] { return NumberAt(context.previous()); }, .key = key};
      const absl::Cleanup pass_on = [&] {
        if (one.entry.ttl.has_value()) context.set_ttl(*one.entry.ttl);
        for (const std::string& tag : one.entry.tags) context.AddTag(tag);
      };
      const absl::StatusOr<int> result = Run(one);
      if (!result.ok()) return result.status();
      return Made<Value>(*result);
    };
  }
  template <typename Value>
  absl::Status LoadBatch(const std::vector<int>& keys, BatchLoad<int, Value>& batch) {
    absl::Status failed;
    for (const int key : keys) {
      Load one{.terms = batch, .previous = [&] { return NumberAt(batch.previous(key)); }, .key = key};
      const absl::StatusOr<int> result = Run(one);
      EXPECT_TRUE(result.ok() ? batch.Add(key, Made<Value>(*result), one.entry)
                              : batch.Fail(key, result.status(), one.entry));
      if (!absl::IsNotFound(result.status()) && result.status() != LoadTerms::NotModified()) {
        failed.Update(result.status());
      }
    }
    return failed;
  }
  template <typename Value>
  std::unique_ptr<Cache<Value>> MakeCache(const LoadingCacheOptions& options) {
    typename Cache<Value>::Callbacks callbacks{.load = LoaderOf<Value>(),
                                               .on_load_error = [this](const int& key, const absl::Status& error) {
                                                 const std::lock_guard lock(mutex_);
                                                 told_.push_back(absl::StrCat(key, " ", error.ToString()));
                                                 changed_.notify_all();
                                                 changed_.notify_all();
                                               }};
    if (shape_.asker == Asker::kGetAllOfThree) {
      callbacks.load_all = [this](const auto& keys, auto& batch) { return this->LoadBatch<Value>(keys, batch); };
    }
    return std::make_unique<Cache<Value>>(options, callbacks);
  }
  void PutNeighbours() {
    for (const int key : {-1, -2}) Put(key, key, {.ttl = absl::InfiniteDuration()});
  }

  template <typename Value>
  static Answer PresentIn(Cache<Value>& cache, int key) {
    const auto present = cache.GetIfPresent(key);
    return present.has_value() ? Answer{{}, absl::StrCat(**present), present->get()} : Answer();
  }
  template <typename Value>
  Answer Lookup(Cache<Value>& cache, Asker asker, int key, const CacheGetOptions& options) {
    if (asker == Asker::kGetOrLoad) return AnswerOf(cache.GetOrLoad(key, LoaderOf<Value>(), options));
    if (asker == Asker::kGetEntry) {
      absl::StatusOr<CacheEntry<Value>> entry = cache.GetEntry(key, options);
      if (!entry.ok()) return {entry.status(), CodeOf(entry.status())};
      return AnswerOf<Value>(std::move(entry->value));
    }
    if (asker == Asker::kGetAllOfOne) return AnswerOf(cache.GetAll({key}, options)[0]);
    if (asker == Asker::kGetAllOfThree) {
      ++asked_for_three_;
      const auto answers = cache.GetAll({-1, key, -2}, options);
      EXPECT_TRUE(AnswerOf(answers[0]) == -1 && AnswerOf(answers[2]) == -2);
      return AnswerOf(answers[1]);
    }
    const bool waits = options.timeout == absl::InfiniteDuration() && !options.stop.stop_possible();
    return AnswerOf(waits ? cache.Get(key) : cache.Get(key, options));
  }

 public:
  explicit Subject(const Shape& shape, LoadingCacheOptions options = {})
      : shape_(shape), pool_(shape.pooled ? std::make_unique<ThreadPool>(4) : nullptr) {
    options.clock = &clock;
    options.metrics = &registry;
    if (options.load_executor == nullptr) options.load_executor = pool_.get();
    if (options.refresh_executor == nullptr) options.refresh_executor = &background;
    if (shape.boxed) boxed_ = MakeCache<std::string>(options);
    if (!shape.boxed) copied_ = MakeCache<int>(options);
    PutNeighbours();
  }

  // Asks for `key` in the way of the shape, or of `asker`, and waits for the answer.
  Answer Ask(int key = 1, const CacheGetOptions& options = {}) { return AskAs(shape_.asker, key, options); }
  Answer AskAs(Asker asker, int key, const CacheGetOptions& options = {}) {
    if (IsAsync(asker)) return AskLaterAs(asker, key, options).get();
    return shape_.boxed ? Lookup(*boxed_, asker, key, options) : Lookup(*copied_, asker, key, options);
  }
  // The same without waiting. Calls that wait are made on threads of their own.
  Pending AskLater(int key = 1, const CacheGetOptions& options = {}) { return AskLaterAs(shape_.asker, key, options); }
  Pending AskLaterAs(Asker asker, int key, const CacheGetOptions& options = {}) {
    if (!IsAsync(asker)) {
      return std::async(std::launch::async, [=, this] { return AskAs(asker, key, options); });
    }
    const auto promise = std::make_shared<std::promise<Answer>>();
    const auto done = [promise, calls = 0](const auto& answer) mutable {
      EXPECT_EQ(++calls, 1);
      promise->set_value(AnswerOf(answer));
    };
    const auto ask = [&](auto& cache) {
      if (asker == Asker::kGetAsync) return cache.GetAsync(key, here_, done, options);
      const auto answer = cache.GetOrAsync(key, here_, done, options);
      if (answer.has_value()) promise->set_value(AnswerOf(*answer));
    };
    shape_.boxed ? ask(*boxed_) : ask(*copied_);
    return promise->get_future();
  }

  Answer Present(int key = 1) { return shape_.boxed ? PresentIn(*boxed_, key) : PresentIn(*copied_, key); }
  // "absence" for an absence.
  std::pair<Answer, CacheSource> Peek(int key = 1) const {
    const auto peek = [&](const auto& cache) -> std::pair<Answer, CacheSource> {
      const auto entry = cache.Peek(key);
      if (!entry.has_value()) return {Answer(), CacheSource::kLoaded};
      if (!entry->value) return {Answer{{}, "absence"}, entry->source};
      return {Answer{{}, absl::StrCat(*entry->value), entry->value.get()}, entry->source};
    };
    return shape_.boxed ? peek(*boxed_) : peek(*copied_);
  }
  void Put(int key, int value, const EntryOptions& entry = {}) {
    shape_.boxed ? boxed_->Put(key, std::to_string(value), entry) : copied_->Put(key, value, entry);
  }
  void PutAll(std::initializer_list<std::pair<int, int>> entries) {
    std::vector<std::pair<int, std::string>> texts;
    for (const auto& [key, value] : entries) texts.emplace_back(key, std::to_string(value));
    shape_.boxed ? boxed_->PutAll(texts) : copied_->PutAll(entries);
  }
  void Refresh(int key = 1) { shape_.boxed ? boxed_->Refresh(key) : copied_->Refresh(key); }
  void Invalidate(int key = 1) { shape_.boxed ? boxed_->Invalidate(key) : copied_->Invalidate(key); }
  void InvalidateKeys(const std::vector<int>& keys) {
    shape_.boxed ? boxed_->InvalidateKeys(keys) : copied_->InvalidateKeys(keys);
  }
  void InvalidateTag(const char* tag) { shape_.boxed ? boxed_->InvalidateTag(tag) : copied_->InvalidateTag(tag); }
  void InvalidateAll() {
    shape_.boxed ? boxed_->InvalidateAll() : copied_->InvalidateAll();
    PutNeighbours();
  }
  absl::Status Update() { return shape_.boxed ? boxed_->UpdateThrough(1, Ok) : copied_->UpdateThrough(1, Ok); }
  CacheStats Stats() const { return shape_.boxed ? boxed_->Stats() : copied_->Stats(); }
  int64_t size() const { return (shape_.boxed ? boxed_->size() : copied_->size()) - 2; }
  int64_t weight() const { return (shape_.boxed ? boxed_->weight() : copied_->weight()) - 2; }

  // Load `number` waits when it has begun, until it is released.
  void Hold(int number, bool held = true) {
    const std::lock_guard lock(mutex_);
    held_[number] = held;
    changed_.notify_all();
  }
  void Release(int number) { Hold(number, false); }
  void AwaitLoad(int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return loads_ >= number; });
  }
  int Loads() const { return loads_; }
  // The failed loads that on_load_error got, when there are `count`.
  Texts Told(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_.size() >= count; });
    return told_;
  }
  // Runs what is in `background` on a thread of its own.
  std::future<void> RunBackground() { return std::async(std::launch::async, &ManualExecutor::RunAll, &background); }

  double Requests(std::string_view result) {
    return testing::Requests(registry, result) - (result == "hit" ? 2 * asked_for_three_ : 0);
  }
  double Refreshes(std::string_view trigger) { return Metric(registry, "stockade_cache_refreshes_total", trigger); }
  double Ended(std::string_view result) { return Metric(registry, "stockade_cache_loads_total", result); }
  // Until `calls` calls wait, of which `leaders` have begun loads.
  void AwaitParked(int calls, int leaders = 1) { AwaitWaiters(registry, shape_.pooled ? calls : calls - leaders); }
  void AwaitNoFlights() const {
    while (Metric(registry, "stockade_cache_flights") != 0) std::this_thread::yield();
  }
  void Advance(absl::Duration duration) { clock.Advance(duration); }
  // So that they are not idle.
  void AskNeighbours() {
    for (const int key : {-1, -2}) EXPECT_EQ(AskAs(Asker::kGet, key), key);
  }

  ManualClock clock;
  MetricsRegistry registry;
  ManualExecutor background;
  absl::Status outcome;
  EntryOptions entry;  // For the results of loads.
  std::function<absl::StatusOr<int>(Load&)> load;

 private:
  const Shape shape_;
  std::atomic<int> asked_for_three_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, bool> held_;  // Guarded by mutex_, as is what writes loads_.
  std::atomic<int> loads_{0};
  Texts told_;
  InlineExecutor here_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Cache<int>> copied_;
  std::unique_ptr<Cache<std::string>> boxed_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SUBJECT_H_
