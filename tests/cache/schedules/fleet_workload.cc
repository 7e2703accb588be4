#include "cache/schedules/fleet_workload.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "cache/schedules/outcome.h"
#include "cache/schedules/stepped_timers.h"
#include "stockade/base/strings.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;
using Kind = Outcome::Kind;

constexpr int64_t kLong = 1'000'000 * kUnit;

}  // namespace

FleetPlan::FleetPlan(uint64_t seed) : Plan(seed), faults(seed % 2 == 1) {
  Random random(seed ^ 0xF1EE7);
  pinned = random.OneIn(2);
  rules.load_hard_timeout = Scheduler::kNever;
  max_staleness = random.Between(5, 30) * kUnit;
  if (rules.stale_if_error > 0 && random.OneIn(2)) load_soft_timeout = random.Between(1, 6) * kUnit;
  callers = random.Between(2, 3);
  calls = random.Between(3, 8);
  load_threads = std::min(load_threads, 1);
  refresh_threads = 1;
}

std::string FleetPlan::Text() const {
  return Concat(Plan::Text(), ", max_staleness ", max_staleness, ", load_soft_timeout ",
                load_soft_timeout == Scheduler::kNever ? std::string("infinite") : Concat(load_soft_timeout),
                faults ? ", with faults" : "");
}

// What a thread does at one time. `share`: how often, against the others.
struct FleetWorkload::Operation {
  enum class When { kAlways, kNotInLoader, kFaults };
  void (FleetWorkload::*run)(int process, bool in_loader);
  int share;
  When when;
};

const FleetWorkload::Operation FleetWorkload::kOperations[] = {
    {&FleetWorkload::Get, 12, Operation::When::kAlways},
    {&FleetWorkload::GetIfPresent, 3, Operation::When::kAlways},
    {&FleetWorkload::GetAll, 4, Operation::When::kAlways},
    {&FleetWorkload::GetAsync, 3, Operation::When::kAlways},
    {&FleetWorkload::Refresh, 2, Operation::When::kAlways},
    {&FleetWorkload::Put, 3, Operation::When::kAlways},
    {&FleetWorkload::Invalidate, 5, Operation::When::kAlways},
    {&FleetWorkload::InvalidateTag, 3, Operation::When::kAlways},
    {&FleetWorkload::InvalidateAll, 1, Operation::When::kAlways},
    {&FleetWorkload::PassTime, 3, Operation::When::kAlways},
    {&FleetWorkload::Beat, 6, Operation::When::kNotInLoader},
    {&FleetWorkload::LapseLeases, 1, Operation::When::kFaults},
    {&FleetWorkload::DropRecords, 1, Operation::When::kFaults},
    {&FleetWorkload::TurnAway, 3, Operation::When::kFaults},
    {&FleetWorkload::LoseReply, 3, Operation::When::kFaults},
    {&FleetWorkload::BeginReign, 1, Operation::When::kFaults},
    {&FleetWorkload::TrimJournal, 1, Operation::When::kFaults},
    {&FleetWorkload::TellLeaseEnded, 6, Operation::When::kNotInLoader},
    {&FleetWorkload::HearEntry, 6, Operation::When::kNotInLoader},
};

FleetWorkload::FleetWorkload(const FleetPlan& plan, uint64_t seed, Scheduler* scheduler)
    : plan_(plan), scheduler_(*scheduler), random_(~seed), clock_(scheduler), recorder_(scheduler) {
  for (const Operation& operation : kOperations) {
    const bool happens = operation.when != Operation::When::kFaults || plan.faults;
    shares_.push_back(happens ? operation.share * random_.Below(4) : 0);
  }
  shares_.front() += kOperations[0].share;
  tier_ = MemoryCacheTier::Create({.clock = &clock_,
                                   .max_staleness = absl::Nanoseconds(plan.max_staleness),
                                   .lease = absl::Nanoseconds(60 * kUnit),
                                   .retry_after = absl::Nanoseconds(2 * kUnit)},
                                  [this](const MemoryCacheTier::Event& event) { OnEvent(event); });
  for (int i = 0; i < kProcesses; ++i) {
    processes_.push_back(std::make_unique<Process>(scheduler, &recorder_, &random_));
    processes_.back()->cache = NewCache(i);
  }
}

LoadingCacheOptions FleetWorkload::Options(Process& process) {
  LoadingCacheOptions options;
  options.name = "fleet";
  options.tier = tier_;
  options.max_weight = plan_.max_weight;
  options.ttl = SpanOf(plan_.rules.ttl);
  options.ttl_jitter = plan_.rules.ttl_jitter;
  options.refresh_ahead = plan_.rules.refresh_ahead;
  options.negative_ttl = SpanOf(plan_.rules.negative_ttl);
  options.stale_while_revalidate = SpanOf(plan_.rules.stale_while_revalidate);
  options.stale_if_error = SpanOf(plan_.rules.stale_if_error);
  options.load_soft_timeout = SpanOf(plan_.load_soft_timeout);
  options.retry_backoff = SpanOf(plan_.rules.retry_backoff);
  options.clock = &clock_;
  options.load_executor = plan_.load_threads > 0 ? &process.load_executor : nullptr;
  options.refresh_executor = &process.refresh_executor;
  options.seed = 1;
  options.metrics = &process.registry;
  return options;
}

std::unique_ptr<SteppedCache> FleetWorkload::NewCache(int process) {
  SteppedCache::Loaders loaders;
  loaders.load = [this, process](int key, LoadContext& context) { return Load(process, key, context); };
  if (plan_.batches) {
    loaders.load_all = [this, process](const std::vector<int>& keys, const SteppedCache::Add& add) {
      return LoadAll(process, keys, add);
    };
  }
  LoadingCacheOptions options = Options(*processes_[static_cast<size_t>(process)]);
  if (plan_.pinned) return std::make_unique<SteppedCacheOf<PinnedId>>(std::move(options), loaders);
  return std::make_unique<SteppedCacheOf<CopiedId>>(std::move(options), loaders);
}

void FleetWorkload::AddThreads(std::vector<std::function<void()>>& bodies) {
  for (const auto& process : processes_) {
    if (plan_.load_threads > 0) bodies.emplace_back([&executor = process->load_executor] { executor.Work(); });
    bodies.emplace_back([&executor = process->refresh_executor] { executor.Work(); });
  }
  bodies.emplace_back([this] { RunTimers(scheduler_); });
}

std::vector<std::function<void()>> FleetWorkload::Bodies() {
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < plan_.callers; ++i) bodies.emplace_back([this] { Caller(); });
  AddThreads(bodies);
  return bodies;
}

std::vector<std::function<void()>> FleetWorkload::SettlingBodies() {
  std::vector<std::function<void()>> bodies;
  bodies.emplace_back([this] { Settle(); });
  AddThreads(bodies);
  return bodies;
}

void FleetWorkload::Caller() {
  for (int i = 0; i < plan_.calls; ++i) {
    scheduler_.Step();
    Operate(AnyProcess(), false);
  }
}

void FleetWorkload::Operate(int process, bool in_loader) {
  for (;;) {
    int draw = random_.Below(std::accumulate(shares_.begin(), shares_.end(), 0));
    size_t i = 0;
    while (draw >= shares_[i]) draw -= shares_[i++];
    if (in_loader && kOperations[i].when == Operation::When::kNotInLoader) continue;
    const auto run = kOperations[i].run;
    (this->*run)(process, in_loader);
    return;
  }
}

// With the tier's mutex held.
void FleetWorkload::OnEvent(const MemoryCacheTier::Event& event) {
  using Happened = MemoryCacheTier::Event::Kind;
  static constexpr const char* kNames[] = {"tier: away",       "tier: lease granted", "tier: lease ended",
                                           "tier: may reload", "tier: stored",        "tier: queued",
                                           "tier: accepted",   "tier: shown"};
  const bool has_key = event.kind == Happened::kAway || event.kind == Happened::kGranted ||
                       event.kind == Happened::kReload || event.kind == Happened::kStored;
  const int key = has_key ? std::stoi(std::string(event.text)) : 0;
  const auto process_index = static_cast<int>(event.process);
  const Stamp now = scheduler_.Note(kNames[static_cast<size_t>(event.kind)], process_index,
                                    has_key ? key : static_cast<int64_t>(event.number));
  if (event.process >= processes_.size() || scheduler_.thread() < 0) return;  // It is being opened or destroyed.
  Process& process = *processes_[event.process];
  Current& current = current_[static_cast<size_t>(scheduler_.thread())];
  switch (event.kind) {
    case Happened::kAway:
      ++process.reasons[key];
      Allow(key, 1);
      break;
    case Happened::kGranted:
      leases_.emplace(event.token);
      if (current.put != 0) {
        FleetHistory::Made& made = history_.made[current.put];
        made.as_of = history_.invalidations[*current.invalidation].accepted.step;
      } else {
        ++process.reasons[key];
      }
      break;
    case Happened::kEnded:
      if (const auto lease = leases_.find(event.token); lease != leases_.end()) leases_.erase(lease);
      break;
    case Happened::kReload: Allow(key, 1); break;
    case Happened::kStored: {
      const auto hash = event.bytes.rfind('#');  // Of an absence.
      const int64_t id =
          std::stoll(std::string(hash == std::string_view::npos ? event.bytes : event.bytes.substr(hash + 1)));
      history_.stores.push_back({now.step, id});
      history_.made[id].stored = true;
      break;
    }
    case Happened::kQueued: queued_[{process_index, event.number}] = *current.invalidation; break;
    case Happened::kAccepted: {
      Stamp& accepted = history_.invalidations[queued_.at({process_index, event.number})].accepted;
      if (accepted.step == FleetHistory::kNotYet) accepted = now;
      break;
    }
    case Happened::kShown:
      if (process.heartbeat.has_value()) history_.heartbeats[*process.heartbeat].shown = now.step;
      break;
  }
}

void FleetWorkload::Allow(int key, int64_t loads) { history_.counts[key].allowed += loads; }

void FleetWorkload::AllowAll(int64_t loads) {
  for (int key = 0; key < plan_.keys; ++key) Allow(key, loads);
}

size_t FleetWorkload::BeginLookup(int process, int key, bool timed, bool in_loader, Stamp begin) {
  history_.lookups.push_back(
      {.process = process, .key = key, .timed = timed, .in_loader = in_loader, .begin = begin, .outcome = {}});
  return history_.lookups.size() - 1;
}

void FleetWorkload::Get(int process, bool in_loader) { (void)DoGet(process, AnyKey(), Timeout(), in_loader); }

SteppedCache::Answer FleetWorkload::DoGet(int process, int key, int64_t timeout, bool in_loader) {
  const size_t call = recorder_.BeginCall(CallKind::kGet, process == 0 ? "Get in 0" : "Get in 1", {Slot(process, key)});
  const size_t lookup = BeginLookup(process, key, timeout != Scheduler::kNever, in_loader, recorder_.call(call).begin);
  SteppedCache::Answer answer = processes_[static_cast<size_t>(process)]->cache->Get(key, {.timeout = SpanOf(timeout)});
  const Outcome outcome = OutcomeOf(answer);
  recorder_.EndCall(call, {outcome});
  history_.lookups[lookup].outcome = outcome;
  history_.lookups[lookup].end = recorder_.call(call).end.step;
  return answer;
}

void FleetWorkload::GetIfPresent(int process, bool in_loader) {
  const int key = AnyKey();
  const size_t call = recorder_.BeginCall(CallKind::kGetIfPresent, "GetIfPresent", {Slot(process, key)});
  const size_t lookup = BeginLookup(process, key, false, in_loader, recorder_.call(call).begin);
  const std::optional<int64_t> answer = processes_[static_cast<size_t>(process)]->cache->GetIfPresent(key);
  const Outcome outcome = answer.has_value() ? Outcome{Kind::kValue, *answer} : Outcome{Kind::kNothing, 0};
  recorder_.EndCall(call, {outcome});
  history_.lookups[lookup].outcome = outcome;
  history_.lookups[lookup].end = recorder_.call(call).end.step;
}

void FleetWorkload::GetAll(int process, bool in_loader) {
  std::vector<int> keys(static_cast<size_t>(plan_.keys));
  std::iota(keys.begin(), keys.end(), 0);
  if (random_.OneIn(2)) std::reverse(keys.begin(), keys.end());
  if (random_.OneIn(3)) keys.pop_back();
  if (keys.empty()) keys.push_back(0);
  const int64_t timeout = Timeout();
  std::vector<int> slots;
  for (const int key : keys) slots.push_back(Slot(process, key));
  const size_t call = recorder_.BeginCall(CallKind::kGet, "GetAll", slots);
  const Stamp begin = recorder_.call(call).begin;
  std::vector<size_t> lookups;
  for (const int key : keys) {
    lookups.push_back(BeginLookup(process, key, timeout != Scheduler::kNever, in_loader, begin));
  }
  const auto answers = processes_[static_cast<size_t>(process)]->cache->GetAll(keys, {.timeout = SpanOf(timeout)});
  std::vector<Outcome> outcomes;
  for (const auto& answer : answers) outcomes.push_back(OutcomeOf(answer));
  recorder_.EndCall(call, outcomes);
  for (size_t i = 0; i < keys.size(); ++i) {
    history_.lookups[lookups[i]].outcome = outcomes[i];
    history_.lookups[lookups[i]].end = recorder_.call(call).end.step;
  }
}

// Its call ends at once; its lookup when the callback is invoked.
void FleetWorkload::GetAsync(int process, bool in_loader) {
  const int key = AnyKey();
  const int64_t timeout = Timeout();
  Process& in = *processes_[static_cast<size_t>(process)];
  const size_t call = recorder_.BeginCall(CallKind::kGet, "GetAsync", {Slot(process, key)});
  const size_t lookup = BeginLookup(process, key, timeout != Scheduler::kNever, in_loader, recorder_.call(call).begin);
  const auto answered = [this, lookup](const SteppedCache::Answer& answer) {
    FleetHistory::Lookup& done = history_.lookups[lookup];
    done.outcome = OutcomeOf(answer);
    done.end = scheduler_.Note("GetAsync = ", done.outcome.id, done.begin.step).step;
  };
  const CacheGetOptions options{.timeout = SpanOf(timeout)};
  random_.OneIn(2) ? in.cache->GetOrAsync(key, in.refresh_executor, answered, options)
                   : in.cache->GetAsync(key, in.refresh_executor, answered, options);
  recorder_.EndCall(call, {Outcome()});
}

void FleetWorkload::Refresh(int process, bool) {
  const int key = AnyKey();
  const size_t call = recorder_.BeginCall(CallKind::kRefresh, "Refresh", {Slot(process, key)});
  Allow(key, 1);
  processes_[static_cast<size_t>(process)]->cache->Refresh(key);
  recorder_.EndCall(call, {Outcome()});
}

size_t FleetWorkload::BeginInvalidation(int process, FleetHistory::Scope scope, int key, unsigned tags) {
  static constexpr const char* kNames[] = {"Invalidate", "InvalidateTag", "InvalidateAll"};
  const Stamp begin = scheduler_.Note(kNames[static_cast<size_t>(scope)], process,
                                      scope == FleetHistory::Scope::kKey ? key : static_cast<int64_t>(tags));
  if (scope == FleetHistory::Scope::kKey) {
    Allow(key, 1);
  } else {
    AllowAll(1);
  }
  history_.invalidations.push_back({.process = process, .scope = scope, .key = key, .tags = tags, .begin = begin.step});
  current_[static_cast<size_t>(scheduler_.thread())].invalidation = history_.invalidations.size() - 1;
  return history_.invalidations.size() - 1;
}

void FleetWorkload::EndInvalidation(size_t invalidation) {
  current_[static_cast<size_t>(scheduler_.thread())] = {};
  history_.invalidations[invalidation].end =
      scheduler_.Note("  invalidated", history_.invalidations[invalidation].begin).step;
}

void FleetWorkload::Put(int process, bool) {
  const int key = AnyKey();
  const int64_t id = ++last_id_;
  const std::optional<int64_t> ttl = OwnTtl();
  const size_t invalidation = BeginInvalidation(process, FleetHistory::Scope::kKey, key, 0);
  FleetHistory::Made& made = history_.made[id];
  made.key = key;
  made.tags = AnyTags();
  made.put = true;
  made.made = history_.invalidations[invalidation].begin;
  made.began = scheduler_.Note("  of the value, which is Put", id, made.tags);
  EntryOptions entry{.ttl = ttl.has_value() ? std::optional(SpanOf(*ttl)) : std::nullopt, .tags = TagNames(made.tags)};
  current_[static_cast<size_t>(scheduler_.thread())].put = id;
  SteppedCache& cache = *processes_[static_cast<size_t>(process)]->cache;
  random_.OneIn(3) ? cache.PutAll({{key, id}}, std::move(entry)) : cache.Put(key, id, std::move(entry));
  EndInvalidation(invalidation);
  history_.made[id].ended = history_.invalidations[invalidation].end;
}

void FleetWorkload::Invalidate(int process, bool) { DoInvalidate(process, AnyKey()); }

void FleetWorkload::DoInvalidate(int process, int key) {
  const size_t invalidation = BeginInvalidation(process, FleetHistory::Scope::kKey, key, 0);
  SteppedCache& cache = *processes_[static_cast<size_t>(process)]->cache;
  random_.OneIn(3) ? cache.InvalidateKeys({key}) : cache.Invalidate(key);
  EndInvalidation(invalidation);
}

void FleetWorkload::InvalidateTag(int process, bool) {
  const unsigned tag = 1U << random_.Below(kTags);
  const size_t invalidation = BeginInvalidation(process, FleetHistory::Scope::kTag, 0, tag);
  processes_[static_cast<size_t>(process)]->cache->InvalidateTag(TagNames(tag).front());
  EndInvalidation(invalidation);
}

void FleetWorkload::InvalidateAll(int process, bool) {
  const size_t invalidation = BeginInvalidation(process, FleetHistory::Scope::kAll, 0, 0);
  processes_[static_cast<size_t>(process)]->cache->InvalidateAll();
  EndInvalidation(invalidation);
}

void FleetWorkload::PassTime(int, bool) {
  scheduler_.Advance((random_.OneIn(6) ? random_.Between(10, 40) : random_.Between(1, 8)) * kUnit);
}

void FleetWorkload::Beat(int process, bool) { DoBeat(process); }

// A tier calls its listener from one thread at a time.
void FleetWorkload::DoBeat(int process) {
  Process& of = *processes_[static_cast<size_t>(process)];
  if (of.heartbeat.has_value() || of.hears) return;
  scheduler_.Note("heartbeat", process);
  history_.heartbeats.push_back({.process = process});
  of.heartbeat = history_.heartbeats.size() - 1;
  tier_->process(static_cast<size_t>(process)).Beat();
  history_.heartbeats[*of.heartbeat].ended = scheduler_.Note("  heartbeat ends", process).step;
  of.heartbeat.reset();
}

void FleetWorkload::TellLeaseEnded(int process, bool) {
  const int key = AnyKey();
  scheduler_.Note("is notified that a load has ended", process, key);
  tier_->process(static_cast<size_t>(process)).TellLeaseEnded(std::to_string(key));
}

void FleetWorkload::HearEntry(int process, bool) {
  Process& of = *processes_[static_cast<size_t>(process)];
  if (of.heartbeat.has_value() || of.hears) return;
  scheduler_.Note("message", process);
  of.hears = true;
  tier_->process(static_cast<size_t>(process)).HearEntry();
  of.hears = false;
}

void FleetWorkload::LapseLeases(int, bool) {
  scheduler_.Note("leases lapse");
  AllowAll(1);
  tier_->LapseLeases();
}

void FleetWorkload::DropRecords(int, bool) {
  scheduler_.Note("records are dropped");
  AllowAll(1);
  tier_->DropRecords();
}

void FleetWorkload::TurnAway(int process, bool) {
  auto& away = tier_->process(static_cast<size_t>(process)).away;
  away = !away;
  scheduler_.Note(away ? "is cut off" : "is back", process);
}

void FleetWorkload::LoseReply(int process, bool) {
  scheduler_.Note("a reply will be lost", process);
  AllowAll(1);
  ++tier_->process(static_cast<size_t>(process)).replies_to_lose;
}

void FleetWorkload::BeginReign(int, bool) {
  scheduler_.Note("new reign");
  AllowAll(1);
  tier_->BeginReign();
}

void FleetWorkload::TrimJournal(int, bool) {
  scheduler_.Note("journal trimmed");
  tier_->TrimJournal();
}

std::optional<int64_t> FleetWorkload::OwnTtl() {
  if (!random_.OneIn(5)) return std::nullopt;
  return random_.Between(0, 6) * kUnit;
}

unsigned FleetWorkload::AnyTags() { return random_.OneIn(2) ? 0 : static_cast<unsigned>(random_.Below(1 << kTags)); }

size_t FleetWorkload::BeginLoad(int process, const std::vector<int>& keys) {
  std::vector<int> slots;
  for (const int key : keys) {
    slots.push_back(Slot(process, key));
    int& reasons = processes_[static_cast<size_t>(process)]->reasons[key];
    Expect(--reasons >= 0, "reason: a load without a lease, although the tier was not away, of key", key);
    ++history_.counts[key].loads;
  }
  const size_t load = recorder_.BeginLoad(slots);
  for (const int slot : slots) {
    Expect(recorder_.running(slot) <= 2, "loads of one key at once in one process", recorder_.running(slot));
  }
  if (settling_) ++settled_loads_;
  return load;
}

int64_t FleetWorkload::Read(int process, const std::vector<int>& keys) {
  const auto others = [&] {
    scheduler_.Step();
    if (settling_) return;
    if (random_.OneIn(plan_.nested_in) && recorder_.depth() < 2) Operate(process, true);
    for (int i = 0; i < plan_.load_points; ++i) scheduler_.Step();
  };
  const bool late = random_.OneIn(2);
  if (late) others();
  const int64_t as_of = scheduler_.Note("reads the database", keys.front(), keys.back()).step;
  if (!late) others();
  return as_of;
}

Recorder::Result FleetWorkload::DrawResult() {
  Recorder::Result result{.outcome = {Kind::kValue, ++last_id_}};
  if (settling_) {
    result.ttl = kLong;
    return result;
  }
  result.ttl = OwnTtl();
  result.tags = AnyTags();
  const int draw = random_.Below(plan_.failing_in);
  if (draw == 0) result.outcome.kind = Kind::kError;
  if (draw == 1) result.outcome.kind = Kind::kAbsent;
  return result;
}

void FleetWorkload::Make(size_t load, int key, const Recorder::Result& result, int64_t as_of) {
  const int64_t id = result.outcome.id;
  history_.made[id] = {.key = key,
                       .tags = result.outcome.kind == Kind::kError ? 0 : result.tags,  // They belong to values.
                       .error = result.outcome.kind == Kind::kError,
                       .as_of = as_of,
                       .made = as_of,
                       .began = recorder_.history().loads[load].begin};
  loads_[id] = load;
  const int64_t usual = result.outcome.kind == Kind::kAbsent ? plan_.rules.negative_ttl : plan_.rules.ttl;
  if (result.outcome.kind == Kind::kError || result.ttl.value_or(usual) <= 0) Allow(key, 1);
}

SteppedCache::Answer FleetWorkload::Load(int process, int key, LoadContext& context) {
  const size_t load = BeginLoad(process, {key});
  const int64_t as_of = Read(process, {key});
  const Recorder::Result result = DrawResult();
  Make(load, key, result, as_of);
  if (result.ttl.has_value()) context.set_ttl(SpanOf(*result.ttl));
  for (std::string& tag : TagNames(result.tags)) context.AddTag(std::move(tag));
  const bool throws = result.outcome.kind == Kind::kError && random_.OneIn(2);
  scheduler_.Step();
  recorder_.EndLoad(load, {result});
  if (throws) throw std::runtime_error(ErrorText(result.outcome.id));
  return AnswerOf(result.outcome);
}

absl::Status FleetWorkload::LoadAll(int process, const std::vector<int>& keys, const SteppedCache::Add& add) {
  const size_t load = BeginLoad(process, keys);
  const int64_t as_of = Read(process, keys);
  std::vector<Recorder::Result> results;
  for (const int key : keys) {
    const Recorder::Result& result = results.emplace_back(DrawResult());
    Make(load + results.size() - 1, key, result, as_of);
    const auto ttl = result.ttl.has_value() ? std::optional(SpanOf(*result.ttl)) : std::nullopt;
    add(key, AnswerOf(result.outcome), {.ttl = ttl, .tags = TagNames(result.tags)});
  }
  scheduler_.Step();
  recorder_.EndLoad(load, results);
  return absl::OkStatus();
}

// Nothing else runs.
void FleetWorkload::Settle() {
  settling_ = true;
  scheduler_.Note("the fleet is at rest");
  Expect(leases_.empty(), "leases: a process has not ended all that it got", static_cast<int64_t>(leases_.size()));
  tier_->LapseLeases();  // Of those whose grant was lost.
  for (int i = 0; i < kProcesses; ++i) {
    tier_->process(static_cast<size_t>(i)).away = false;
    tier_->process(static_cast<size_t>(i)).replies_to_lose = 0;
  }
  for (int i = 0; i < kProcesses; ++i) DoBeat(i);  // One of them sends what the other must see.
  for (int key = 0; key < plan_.keys; ++key) {
    for (int loader = 0; loader < kProcesses; ++loader) ExpectShared(loader, key);
  }
  Expect(leases_.empty(), "leases: left over in a fleet at rest", static_cast<int64_t>(leases_.size()));
}

// One process invalidates the key and loads it, and the other gets the same without a load. Each of them has it then.
void FleetWorkload::ExpectShared(int loader, int key) {
  const int other = 1 - loader;
  DoInvalidate(loader, key);
  const int64_t before = settled_loads_;
  const SteppedCache::Answer loaded = DoGet(loader, key, Scheduler::kNever, false);
  Expect(loaded.ok() && settled_loads_ == before + 1, "one load after an invalidation", settled_loads_ - before);
  DoBeat(other);
  const SteppedCache::Answer found = DoGet(other, key, Scheduler::kNever, false);
  Expect(found == loaded && settled_loads_ == before + 1, "the other process's load", settled_loads_ - before);
  DoBeat(loader);  // Its own invalidation comes back.
  const int64_t asks = tier_->asks();
  for (const int process : {loader, other}) {
    Expect(DoGet(process, key, Scheduler::kNever, false) == loaded, "another answer in a fleet at rest", key);
  }
  Expect(plan_.rules.evicts || tier_->asks() == asks, "questions of processes that have the value",
         tier_->asks() - asks);
}

void FleetWorkload::CheckEnd() {
  for (auto& [id, load] : loads_) {
    const int64_t ended = recorder_.history().loads[load].ended.step;
    history_.made[id].ended = ended == 0 ? FleetHistory::kNotYet : ended;
  }
  for (const auto& process : processes_) {
    for (const std::string_view gauge : {"stockade_cache_flights", "stockade_cache_waiters"}) {
      Expect(Counted(*process, gauge) == 0, Concat(gauge, " left over"), Counted(*process, gauge));
    }
    Expect(process->cache->weight() == process->cache->size(), "weight other than the entries'",
           process->cache->weight());
  }
  for (const auto& process : processes_) {
    const int64_t live = process->cache->End();
    Expect(live == 0, "values left over", live);
    Expect(process->cache->spoilt() == 0, "values that changed while they were pinned", process->cache->spoilt());
  }
}

int64_t FleetWorkload::Counted(const Process& process, std::string_view metric) const {
  double sum = 0;
  for (const prometheus::MetricFamily& family : process.registry.Collect()) {
    if (family.name != metric) continue;
    for (const prometheus::ClientMetric& series : family.metric) sum += series.counter.value + series.gauge.value;
  }
  return static_cast<int64_t>(sum);
}

void FleetWorkload::Expect(bool right, std::string_view what, int64_t found) {
  if (!right && wrong_.empty()) wrong_ = Concat(what, ": ", found);
}

}  // namespace stockade::testing
