#include "mysql_poller.h"

#include <algorithm>
#include <random>
#include <utility>

#include "stockade/base/start_thread.h"

namespace stockade::locks_internal {
namespace {

// The pause before the next purge if the last one did not delete everything.
constexpr absl::Duration kPurgeAgain = absl::Seconds(1);

}  // namespace

class MySqlPoller::Watching final : public LockWatch {
 public:
  Watching(MySqlPoller* poller, std::shared_ptr<HintListener> listener)
      : poller_(poller), listener_(std::move(listener)) {}
  ~Watching() override {
    poller_->Forget(listener_);
    listener_->Close();
  }

 private:
  MySqlPoller* const poller_;
  const std::shared_ptr<HintListener> listener_;
};

MySqlPoller::MySqlPoller(const MySqlPollerOptions& options, Clock* clock, Ask ask, std::function<bool()> purge)
    : options_(options), clock_(clock), ask_(std::move(ask)), purge_(std::move(purge)), purge_at_(NextPurge(false)) {}

MySqlPoller::~MySqlPoller() { Stop(); }

absl::Status MySqlPoller::Start() {
  return StartThread(thread_, [this] { Run(); });
}

void MySqlPoller::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<LockWatch> MySqlPoller::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  auto listener = std::make_shared<HintListener>(hold, std::move(on_hint));
  const MutexLock lock(mutex_);
  Name& name = names_[hold.name];
  name.listeners.push_back(listener);
  AskSoon(name);  // For a release between the caller's try and now.
  return std::make_unique<Watching>(this, std::move(listener));
}

void MySqlPoller::AskSoon(Name& name) {
  name.interval = options_.interval_min;
  name.due = std::min(name.due, clock_->Now() + name.interval);
  if (name.due < sleeps_until_) changed_.NotifyOne();
}

void MySqlPoller::Forget(const std::shared_ptr<HintListener>& listener) {
  const MutexLock lock(mutex_);
  const auto found = names_.find(listener->hold().name);
  std::erase(found->second.listeners, listener);
  if (found->second.listeners.empty()) names_.erase(found);
}

void MySqlPoller::TellReleased(std::string_view name) {
  Listeners to_notify;
  {
    const MutexLock lock(mutex_);
    const auto found = names_.find(name);
    if (found == names_.end()) return;
    AskSoon(found->second);
    Name& released = found->second;
    const Instant now = clock_->Now();
    if (now - released.released_at > kMostHanding) released.handing_since = now;
    released.released_at = now;
    if (now - released.handing_since >= kMostHanding) {
      released.handing_since = now;
      return;
    }
    to_notify = released.listeners;
  }
  for (const std::shared_ptr<HintListener>& listener : to_notify) listener->Notify();
}

uint64_t MySqlPoller::questions() const {
  const MutexLock lock(mutex_);
  return questions_;
}

Instant MySqlPoller::NextPurge(bool soon) {
  if (soon) return clock_->Now() + kPurgeAgain;
  thread_local std::minstd_rand random{std::random_device()()};
  return clock_->Now() + options_.purge_interval * std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

Instant MySqlPoller::NextLook() const {
  Instant next = Instant::InfiniteFuture();
  for (const auto& [key, name] : names_) next = std::min(next, name.due);
  return std::min(purge_at_, std::max(next, answered_ + options_.interval_min));
}

std::vector<std::string> MySqlPoller::TakeDue(Instant now) {
  if (now < answered_ + options_.interval_min) return {};
  std::vector<std::pair<Instant, Names::value_type*>> due;
  for (Names::value_type& entry : names_) {
    if (entry.second.due <= now) due.emplace_back(entry.second.due, &entry);
  }
  std::ranges::stable_sort(due, {}, &std::pair<Instant, Names::value_type*>::first);
  if (due.size() > kMostNames) due.resize(kMostNames);  // The rest are the first next time.
  std::vector<std::string> names;
  names.reserve(due.size());
  for (const auto& [at, entry] : due) {
    entry->second.due = Instant::InfiniteFuture();
    names.push_back(entry->first);
  }
  return names;
}

void MySqlPoller::Note(const std::vector<std::string>& names, const std::optional<std::vector<NameState>>& states,
                       Listeners& to_notify) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = names_.find(names[i]);
    if (found == names_.end()) continue;
    Name& name = found->second;
    const std::optional<NameState> state = states ? std::optional((*states)[i]) : std::nullopt;
    const bool same = !state || state == name.seen;
    name.interval = same ? std::min(2 * name.interval, options_.interval_max) : options_.interval_min;
    name.due = std::min(name.due, answered_ + name.interval);  // It may be wanted sooner since it was asked for.
    if (!state) continue;
    name.seen = state;
    for (const std::shared_ptr<HintListener>& listener : name.listeners) {
      if (state->FreeFor(listener->hold().kind)) to_notify.push_back(listener);
    }
  }
}

void MySqlPoller::Run() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    const Instant now = clock_->Now();
    const Instant next = NextLook();
    if (now < next) {
      sleeps_until_ = next;
      changed_.WaitUntil(*clock_, mutex_, next);
      sleeps_until_ = Instant::InfinitePast();
      continue;
    }
    const bool purges = now >= purge_at_;
    const std::vector<std::string> names = TakeDue(now);
    if (!names.empty()) ++questions_;
    std::optional<std::vector<NameState>> states;
    bool more = false;
    {
      const MutexUnlock unlocked(mutex_);
      if (!names.empty()) states = ask_(names);
      more = purges && purge_();
    }
    if (!names.empty()) answered_ = clock_->Now();
    if (purges) purge_at_ = NextPurge(more);
    Listeners to_notify;
    Note(names, states, to_notify);
    const MutexUnlock unlocked(mutex_);
    for (const std::shared_ptr<HintListener>& listener : to_notify) listener->Notify();
    to_notify.clear();
  }
}

}  // namespace stockade::locks_internal
