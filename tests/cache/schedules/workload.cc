#include "cache/schedules/workload.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "cache/schedules/outcome.h"

namespace stockade::testing {
namespace {

constexpr int kDeepest = 3;  // Loads within loads.

}  // namespace

// What a thread does at one time. `share`: how often, against the others.
struct Workload::Operation {
  void (Workload::*run)();
  int share;
};

const Workload::Operation Workload::kOperations[] = {
    {&Workload::Get, 10},           {&Workload::GetInTime, 4},     {&Workload::GetIfPresent, 2}, {&Workload::Put, 3},
    {&Workload::Invalidate, 4},     {&Workload::InvalidateAll, 1}, {&Workload::PassTime, 4},     {&Workload::GetAll, 6},
    {&Workload::Refresh, 2},        {&Workload::InvalidateTag, 4}, {&Workload::Peek, 2},         {&Workload::PutAll, 2},
    {&Workload::InvalidateKeys, 2},
};
constexpr size_t kInvalidateAt = 4;
constexpr size_t kPassTimeAt = 6;

Workload::Workload(const Plan& plan, uint64_t seed, Scheduler* scheduler)
    : plan_(plan),
      scheduler_(*scheduler),
      random_(~seed),
      clock_(scheduler),
      recorder_(scheduler),
      load_executor_(scheduler, &recorder_, &random_, false),
      refresh_executor_(scheduler, &recorder_, &random_, true) {
  // A schedule that leaves some operations out goes deeper into the others (swarm testing: Groce et al., ISSTA 2012).
  for (const Operation& operation : kOperations) shares_.push_back(operation.share * random_.Below(4));
  shares_.front() += kOperations[0].share;
  if (plan.shape == Shape::kStorm) shares_[kInvalidateAt] = 2 * shares_.front();
  if (plan.shape == Shape::kNested) shares_.front() *= 4;
  if (plan.rules.ttl != Scheduler::kNever || plan.rules.load_hard_timeout != Scheduler::kNever)
    shares_[kPassTimeAt] += shares_.front() / 4;
  SteppedCache::Loaders loaders;
  loaders.load = [this](int key, LoadContext& context) { return Load(key, context); };
  if (plan.batches) {
    loaders.load_all = [this](const std::vector<int>& keys, const SteppedCache::Add& add) {
      return LoadAll(keys, add);
    };
  }
  if (plan.pinned) {
    cache_ = std::make_unique<SteppedCacheOf<PinnedId>>(Options(), loaders);
  } else {
    cache_ = std::make_unique<SteppedCacheOf<CopiedId>>(Options(), loaders);
  }
}

LoadingCacheOptions Workload::Options() {
  LoadingCacheOptions options;
  options.max_weight = plan_.max_weight;
  options.ttl = SpanOf(plan_.rules.ttl);
  options.ttl_jitter = plan_.rules.ttl_jitter;
  options.refresh_ahead = plan_.rules.refresh_ahead;
  options.negative_ttl = SpanOf(plan_.rules.negative_ttl);
  options.stale_while_revalidate = SpanOf(plan_.rules.stale_while_revalidate);
  options.stale_if_error = SpanOf(plan_.rules.stale_if_error);
  options.retry_backoff = SpanOf(plan_.rules.retry_backoff);
  options.load_hard_timeout = SpanOf(plan_.rules.load_hard_timeout);
  options.clock = &clock_;
  options.load_executor = plan_.load_threads > 0 ? &load_executor_ : nullptr;
  options.refresh_executor = &refresh_executor_;
  options.seed = 1;
  options.metrics = &registry_;
  return options;
}

std::vector<std::function<void()>> Workload::Bodies() {
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < plan_.callers; ++i) bodies.emplace_back([this] { Caller(); });
  for (int i = 0; i < plan_.load_threads; ++i) bodies.emplace_back([this] { load_executor_.Work(); });
  for (int i = 0; i < plan_.refresh_threads; ++i) bodies.emplace_back([this] { refresh_executor_.Work(); });
  return bodies;
}

void Workload::Caller() {
  for (int i = 0; i < plan_.calls; ++i) {
    scheduler_.Step();
    Operate();
  }
}

void Workload::Operate() {
  int draw = random_.Below(std::accumulate(shares_.begin(), shares_.end(), 0));
  size_t i = 0;
  while (draw >= shares_[i]) draw -= shares_[i++];
  // On its own line: g++ 12 without optimisation checks the index of `(this->*array[i].run)()` before it has read it.
  const auto run = kOperations[i].run;
  (this->*run)();
}

void Workload::Get() { DoGet(AnyKey(), Scheduler::kNever); }
void Workload::GetInTime() { DoGet(AnyKey(), random_.Below(6) * kUnit); }
void Workload::GetIfPresent() { DoGetIfPresent(AnyKey()); }

void Workload::DoGet(int key, int64_t timeout) {
  const size_t call = recorder_.BeginCall(CallKind::kGet, "Get", {key});
  recorder_.call(call).timeout = timeout;
  const CacheGetOptions options{.timeout = SpanOf(timeout)};
  const bool entry = random_.OneIn(3);
  recorder_.EndCall(call, {OutcomeOf(entry ? cache_->GetEntry(key, options) : cache_->Get(key, options))});
}

void Workload::DoGetIfPresent(int key) {
  const size_t call = recorder_.BeginCall(CallKind::kGetIfPresent, "GetIfPresent", {key});
  const std::optional<int64_t> answer = cache_->GetIfPresent(key);
  recorder_.EndCall(
      call, {answer.has_value() ? Outcome{Outcome::Kind::kValue, *answer} : Outcome{Outcome::Kind::kNothing, 0}});
}

void Workload::Peek() {
  const int key = AnyKey();
  const size_t call = recorder_.BeginCall(CallKind::kPeek, "Peek", {key});
  const std::optional<SteppedCache::Answer> answer = cache_->Peek(key);
  Outcome outcome{Outcome::Kind::kNothing, 0};
  if (answer.has_value())
    outcome = answer->ok() ? Outcome{Outcome::Kind::kValue, **answer} : Outcome{Outcome::Kind::kAbsent, 0};
  recorder_.EndCall(call, {outcome});
}

void Workload::Put() {
  const int key = AnyKey();
  const int64_t value = ++last_id_;
  const std::optional<int64_t> ttl = OwnTtl();
  const size_t call = recorder_.BeginCall(CallKind::kPut, "Put", {key});
  recorder_.call(call).id = value;
  recorder_.call(call).ttl = ttl;
  recorder_.call(call).tags = AnyTags();
  scheduler_.Note("  value, of tags", value, recorder_.call(call).tags);
  EntryOptions entry{.ttl = ttl.has_value() ? std::optional(SpanOf(*ttl)) : std::nullopt,
                     .tags = TagNames(recorder_.call(call).tags)};
  cache_->Put(key, value, std::move(entry));
  recorder_.EndCall(call, {Outcome()});
}

// Of a key that is asked for twice, the last value is put.
void Workload::PutAll() {
  const std::vector<int> asked = AnyKeys();
  const std::vector<int> keys = Distinct(asked);
  const std::optional<int64_t> ttl = OwnTtl();
  const unsigned tags = AnyTags();
  std::vector<std::pair<int, int64_t>> ids;
  for (const int key : asked) ids.emplace_back(key, ++last_id_);
  const size_t call = recorder_.BeginCall(CallKind::kPut, "PutAll", keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    Call& put = recorder_.call(call + i);
    for (const auto& [key, id] : ids) put.id = key == keys[i] ? id : put.id;
    put.ttl = ttl;
    put.tags = tags;
    scheduler_.Note("  value, of tags", put.id, tags);
  }
  cache_->PutAll(ids, {.ttl = ttl.has_value() ? std::optional(SpanOf(*ttl)) : std::nullopt, .tags = TagNames(tags)});
  recorder_.EndCall(call, std::vector<Outcome>(keys.size()));
}

void Workload::InvalidateKeys() {
  const std::vector<int> asked = AnyKeys();
  const std::vector<int> keys = Distinct(asked);
  const size_t call = recorder_.BeginCall(CallKind::kInvalidate, "InvalidateKeys", keys);
  cache_->InvalidateKeys(asked);
  recorder_.EndCall(call, std::vector<Outcome>(keys.size()));
}

std::vector<int> Workload::AnyKeys() {
  std::vector<int> keys;
  for (int i = random_.Between(1, plan_.keys + 1); i > 0; --i) keys.push_back(AnyKey());
  return keys;
}

std::vector<int> Workload::Distinct(std::vector<int> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

void Workload::GetAll() {
  const std::vector<int> asked = AnyKeys();
  const std::vector<int> keys = Distinct(asked);
  const int64_t timeout = random_.OneIn(4) ? random_.Below(6) * kUnit : Scheduler::kNever;
  const size_t call = recorder_.BeginCall(CallKind::kGet, "GetAll", keys);
  for (size_t i = 0; i < keys.size(); ++i) recorder_.call(call + i).timeout = timeout;
  const auto answers = cache_->GetAll(asked, {.timeout = SpanOf(timeout)});
  Expect(answers.size() == asked.size(), "answers of GetAll", static_cast<int64_t>(answers.size()));
  std::vector<std::optional<Outcome>> outcomes(keys.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    const Outcome outcome = OutcomeOf(answers[i]);
    const auto place = std::find(keys.begin(), keys.end(), asked[i]) - keys.begin();
    std::optional<Outcome>& of_key = outcomes[static_cast<size_t>(place)];
    Expect(!of_key.has_value() || *of_key == outcome, "a repeated key's other answer", outcome.id);
    of_key = outcome;
  }
  std::vector<Outcome> of_keys;
  for (const auto& outcome : outcomes) of_keys.push_back(*outcome);
  recorder_.EndCall(call, of_keys);
}

void Workload::Refresh() {
  const int key = AnyKey();
  const size_t call = recorder_.BeginCall(CallKind::kRefresh, "Refresh", {key});
  cache_->Refresh(key);
  recorder_.EndCall(call, {Outcome()});
}

void Workload::InvalidateTag() {
  const unsigned tag = 1U << random_.Below(kTags);
  const size_t call = recorder_.BeginCall(CallKind::kInvalidateTag, "InvalidateTag", {kAllKeys});
  recorder_.call(call).tags = tag;
  scheduler_.Note("  tag", tag);
  cache_->InvalidateTag(TagNames(tag).front());
  recorder_.EndCall(call, {Outcome()});
}

void Workload::Invalidate() {
  const int key = AnyKey();
  const size_t call = recorder_.BeginCall(CallKind::kInvalidate, "Invalidate", {key});
  cache_->Invalidate(key);
  recorder_.EndCall(call, {Outcome()});
}

void Workload::InvalidateAll() {
  const size_t call = recorder_.BeginCall(CallKind::kInvalidateAll, "InvalidateAll", {kAllKeys});
  cache_->InvalidateAll();
  recorder_.EndCall(call, {Outcome()});
}

void Workload::PassTime() {
  scheduler_.Advance((random_.OneIn(6) ? random_.Between(10, 40) : random_.Between(1, 8)) * kUnit);
}

std::optional<int64_t> Workload::OwnTtl() {
  if (!random_.OneIn(5)) return std::nullopt;
  return random_.Between(0, 6) * kUnit;
}

unsigned Workload::AnyTags() { return random_.OneIn(2) ? 0 : static_cast<unsigned>(random_.Below(1 << kTags)); }

void Workload::Dally(const std::vector<int>& keys) {
  for (const int key : keys) Expect(recorder_.running(key) <= 2, "loads of one key at once", recorder_.running(key));
  scheduler_.Step();
  if (random_.OneIn(plan_.nested_in) && recorder_.depth() < kDeepest) Operate();
  for (int i = 0; i < plan_.load_points; ++i) scheduler_.Step();
}

Recorder::Result Workload::DrawResult() {
  Recorder::Result result{.outcome = {Outcome::Kind::kValue, ++last_id_}, .ttl = OwnTtl(), .tags = AnyTags()};
  const int draw = random_.Below(plan_.failing_in);
  if (draw == 0) result.outcome.kind = Outcome::Kind::kError;
  if (draw == 1) result.outcome.kind = Outcome::Kind::kAbsent;
  return result;
}

absl::StatusOr<int64_t> Workload::Load(int key, LoadContext& context) {
  const size_t load = recorder_.BeginLoad({key});
  Dally({key});
  const Recorder::Result result = DrawResult();
  if (result.ttl.has_value()) context.set_ttl(SpanOf(*result.ttl));
  for (std::string& tag : TagNames(result.tags)) context.AddTag(std::move(tag));
  const bool throws = result.outcome.kind == Outcome::Kind::kError && random_.OneIn(2);
  scheduler_.Step();
  recorder_.EndLoad(load, {result});
  if (throws) throw std::runtime_error(ErrorText(result.outcome.id));
  return AnswerOf(result.outcome);
}

absl::Status Workload::LoadAll(const std::vector<int>& keys, const SteppedCache::Add& add) {
  const size_t load = recorder_.BeginLoad(keys);
  Dally(keys);
  std::vector<Recorder::Result> results;
  const bool fails = random_.OneIn(2 * plan_.failing_in);
  const Outcome failure{Outcome::Kind::kError, ++last_id_};
  for (const int key : keys) {
    results.push_back(fails ? Recorder::Result{failure, std::nullopt} : DrawResult());
    const Recorder::Result& result = results.back();
    if (fails) continue;
    const auto ttl = result.ttl.has_value() ? std::optional(SpanOf(*result.ttl)) : std::nullopt;
    add(key, AnswerOf(result.outcome), {.ttl = ttl, .tags = TagNames(result.tags)});
  }
  scheduler_.Step();
  recorder_.EndLoad(load, results);
  return fails ? AnswerOf(failure).status() : absl::OkStatus();
}

}  // namespace stockade::testing
