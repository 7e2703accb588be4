#include "zookeeper_lock_engine.h"

#include <algorithm>
#include <random>
#include <ranges>
#include <utility>
#include <vector>

#include "../../service/shown_lock.h"
#include "../hint_listener.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stockade/base/strings.h"
#include "zookeeper_nodes.h"
#include "zookeeper_round.h"
#include "zookeeper_try.h"

namespace stockade::locks_internal {
namespace {

// Nobody else's, so that nodes are found again by it.
std::string NewClientName() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

absl::Status AtZooKeeper(std::string_view name, int code) {
  return ZooKeeperError(Concat(ShownLock(name), " at ZooKeeper"), code);
}

}  // namespace

struct ZooKeeperLockEngine::Listener : HintListener {
  using HintListener::HintListener;

  ZooKeeperSession::Gone on_gone = [this] {
    {
      const MutexLock lock(mutex);
      watched_path.clear();
    }
    Notify();
  };

  Mutex mutex;
  std::string watched_path STOCKADE_GUARDED_BY(mutex);  // The node whose deletion notifies this listener.
};

class ZooKeeperLockEngine::NodeWatch final : public LockWatch {
 public:
  NodeWatch(ZooKeeperLockEngine* engine, std::shared_ptr<Listener> listener)
      : engine_(engine), listener_(std::move(listener)) {}

  ~NodeWatch() override {
    Remove();
    listener_->Close();
  }

 private:
  void Remove() {
    const MutexLock lock(engine_->mutex_);
    const auto found = engine_->listeners_.find(listener_->hold());
    if (found != engine_->listeners_.end() && found->second == listener_) engine_->listeners_.erase(found);
  }

  ZooKeeperLockEngine* const engine_;
  const std::shared_ptr<Listener> listener_;
};

absl::StatusOr<std::unique_ptr<ZooKeeperLockEngine>> ZooKeeperLockEngine::Connect(std::string_view url,
                                                                                  ZooKeeperLockOptions options) {
  absl::StatusOr<ZooKeeperUrl> parsed = ParseZooKeeperUrl(url);
  if (!parsed.ok()) return parsed.status();
  options.session_timeout = parsed->session_timeout.value_or(options.session_timeout);
  options.server_tick = parsed->tick.value_or(options.server_tick);
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (options.acl == ZooKeeperAcl::kCreatorAll && parsed->user.empty()) {
    return absl::InvalidArgumentError("ZooKeeperLockOptions: acl = kCreatorAll needs a user in the URL");
  }
  const bool asked = options.session_timeout > absl::ZeroDuration();
  ZooKeeperSessionOptions session = {
      .servers = absl::StrJoin(parsed->servers, ","),
      .credentials = parsed->user.empty() ? std::string() : Concat(parsed->user, ":", parsed->password),
      .root = parsed->root,
      .creator_only = !parsed->user.empty() && options.acl != ZooKeeperAcl::kOpen,
      .timeout = asked ? options.session_timeout : options.service.watchdog_lease,
      .tick = options.server_tick,
      .clock_drift = options.service.clock_drift,
      .clock = options.service.clock,
  };
  std::string id = Concat("zookeeper ", session.servers, session.root);
  // A waiter tries again three times in a watchdog's lease at least.
  std::unique_ptr<ZooKeeperLockEngine> engine(new ZooKeeperLockEngine(
      std::move(session), options.service.watchdog_lease + options.service.engine_timeout, std::move(id)));
  const Instant until = options.service.clock->Now() + options.connect_timeout;
  if (absl::Status started = engine->holds_.Start(); !started.ok()) return started;
  if (absl::Status connected = engine->connection_.Connect(options.connect_timeout); !connected.ok()) return connected;
  if (absl::Status root = engine->CheckRoot(until); !root.ok()) return root;
  return engine;
}

ZooKeeperLockEngine::ZooKeeperLockEngine(ZooKeeperSessionOptions session, absl::Duration place_life, std::string id)
    : session_options_(std::move(session)),
      id_(std::move(id)),
      clock_(session_options_.clock),
      janitor_(std::make_shared<ZooKeeperJanitor>()),
      holds_(clock_, session_options_.root, NewClientName(), place_life, janitor_),
      connection_(session_options_, {.heard =
                                         [this] {
                                           janitor_->Retry();
                                           TellAll();
                                         },
                                     .kept = [this] { janitor_->Retry(); },
                                     .over =
                                         [this](const std::shared_ptr<ZooKeeperSession>& session) {
                                           holds_.Sweep(session);
                                           janitor_->Forget(session);
                                         }}) {}

ZooKeeperLockEngine::~ZooKeeperLockEngine() {
  holds_.Stop();
  connection_.Stop();
}

absl::Status ZooKeeperLockEngine::CheckRoot(Instant until) {
  Mutex mutex;
  CondVar never;
  for (;;) {
    absl::Status why;
    const std::shared_ptr<ZooKeeperSession> session = connection_.Await(until, why);
    if (session == nullptr) return why;
    absl::Status made = MakeRoot(*session, until);
    const Instant now = clock_->Now();
    if (!absl::IsUnavailable(made) || now >= until) return made;
    // The session ended meanwhile, and each step can be repeated. The pause lets the connection replace the session.
    const MutexLock lock(mutex);
    never.WaitUntil(*clock_, mutex, now + absl::Milliseconds(10));
  }
}

absl::Status ZooKeeperLockEngine::MakeRoot(ZooKeeperSession& session, Instant until) {
  const std::string& root = session_options_.root;
  for (bool made = false;; made = true) {
    const auto read = std::make_shared<ZooKeeperRound>();
    session.Read(root, read->Next());
    const int code = read->Await(*clock_, until, &session)[0].code;
    if (code != ZNONODE || made) return ZooKeeperError(Concat("ZooKeeper node ", root, " cannot be read"), code);
    // Each only where it is not there: to make one takes a right at its parent, even one that is there already.
    std::vector<std::string> paths = ParentsOf(root);
    paths.push_back(root);
    for (const std::string& path : paths) {
      const auto look = std::make_shared<ZooKeeperRound>();
      session.Exists(path, look->Next());
      int made_it = look->Await(*clock_, until, &session)[0].code;
      if (made_it == ZNONODE) {
        const auto make = std::make_shared<ZooKeeperRound>();
        session.Create(path, ZOO_PERSISTENT, make->Next());
        made_it = make->Await(*clock_, until, &session)[0].code;
      }
      if (made_it != ZOK && made_it != ZNODEEXISTS) {
        return ZooKeeperError(Concat("ZooKeeper node ", path, " cannot be created"), made_it);
      }
    }
  }
}

void ZooKeeperLockEngine::TryMany(std::span<LockTry> tries) {
  absl::Duration longest = absl::ZeroDuration();
  for (const LockTry& step : tries) longest = std::max(longest, step.timeout);
  const Instant until = clock_->Now() + longest;
  absl::Status why;
  const std::shared_ptr<ZooKeeperSession> session = connection_.Await(until, why);
  if (session == nullptr) {
    for (LockTry& step : tries) step.status = why;
    return;
  }
  std::vector<ZooKeeperTry> open;
  open.reserve(tries.size());
  for (LockTry& step : tries) open.emplace_back(holds_, session, step);
  const auto is_open = [](const ZooKeeperTry& each) { return !each.done(); };
  while (std::ranges::any_of(open, is_open)) {
    const auto round = std::make_shared<ZooKeeperRound>();
    for (ZooKeeperTry& each : open | std::views::filter(is_open)) each.Send(*round);
    std::vector<ZooKeeperAnswer> answers = round->Await(*clock_, until, session.get());
    for (ZooKeeperTry& each : open) {
      if (!each.done()) each.Read(answers);
    }
  }
  for (const LockTry& step : tries) {
    if (step.status.ok() && !step.acquired && step.queue) Listen(step.hold);
  }
}

void ZooKeeperLockEngine::RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) {
  const Instant until = clock_->Now() + timeout;
  const auto round = std::make_shared<ZooKeeperRound>();
  std::vector<ZooKeeperHolds::HoldPtr> holds;
  holds.reserve(renewals.size());
  std::shared_ptr<ZooKeeperSession> session;  // That the barrier is of: one for all holds, but while sessions change.
  size_t barrier = 0;
  std::vector<size_t> barriers;
  barriers.reserve(renewals.size());
  for (LockRenewal& renewal : renewals) {
    const ZooKeeperHolds::HoldPtr& hold = holds.emplace_back(holds_.FindHeld(renewal.hold));
    if (hold != nullptr && hold->session != session) {
      session = hold->session;
      session->Barrier(round->Next());
      barrier = round->size() - 1;
    }
    barriers.push_back(barrier);
    if (hold == nullptr) continue;
    session->Exists(Concat(hold->directory, "/", hold->name), round->Next());
  }
  const std::vector<ZooKeeperAnswer> answers = round->Await(*clock_, until, session.get());
  size_t at = 0;
  for (size_t i = 0; i < renewals.size(); ++i) {
    LockRenewal& renewal = renewals[i];
    renewal.held = false;
    if (holds[i] == nullptr) continue;
    at = std::max(at, barriers[i]) + 1;
    const int code = answers[barriers[i]].code == ZOK ? answers[at].code : answers[barriers[i]].code;
    if (code == ZOK) {
      renewal.held = holds_.Renew(holds[i], renewal.lease);
    } else if (code == ZNONODE) {
      holds_.TakeOff(holds[i]);
    } else {
      renewal.status = AtZooKeeper(renewal.hold.name, code);
    }
  }
}

void ZooKeeperLockEngine::ReleaseMany(std::span<LockRelease> releases) {
  absl::Duration longest = absl::ZeroDuration();
  for (const LockRelease& release : releases) longest = std::max(longest, release.timeout);
  const Instant until = clock_->Now() + longest;
  const auto round = std::make_shared<ZooKeeperRound>();
  std::shared_ptr<ZooKeeperSession> asked;
  std::vector<Leaving> leaving;
  for (LockRelease& release : releases) {
    if (std::optional<Leaving> one = BeginRelease(release, *round, asked)) leaving.push_back(*std::move(one));
  }
  if (leaving.empty()) return;
  const std::vector<ZooKeeperAnswer> answers = round->Await(*clock_, until, asked.get());
  for (const Leaving& one : leaving) EndRelease(one, answers[one.answer].code);
}

std::optional<ZooKeeperLockEngine::Leaving> ZooKeeperLockEngine::BeginRelease(
    LockRelease& release, ZooKeeperRound& round, std::shared_ptr<ZooKeeperSession>& asked) {
  ZooKeeperHolds::Lowered lowered = holds_.Lower(release);
  release.status = std::move(lowered.status);
  release.held = lowered.held;
  release.outcome_unknown = false;
  const bool unanswered_before = release.repeated || release.resent || release.gives_up;
  if (!release.status.ok() || (!lowered.held && lowered.free == nullptr && !unanswered_before)) return std::nullopt;
  if (lowered.kept != nullptr) {  // As a re-entry looks whether the hold is still there.
    asked = lowered.kept->session;
    asked->Sync(round.Next());
    asked->Exists(Concat(lowered.kept->directory, "/", lowered.kept->name), round.Next());
    return Leaving{.release = &release, .lowered = std::move(lowered), .answer = round.size() - 1};
  }
  const auto done = [answered = round.Next()](bool existed) {
    answered({.code = existed ? static_cast<int>(ZOK) : static_cast<int>(ZNONODE)});
  };
  const size_t answer = round.size() - 1;
  if (lowered.free != nullptr) {
    asked = lowered.free->session;
    janitor_->Remove(lowered.free->node(), release.hold, done);
  } else {
    janitor_->WhenClear(release.hold, done);
  }
  return Leaving{.release = &release, .lowered = std::move(lowered), .answer = answer};
}

void ZooKeeperLockEngine::EndRelease(const Leaving& leaving, int code) {
  LockRelease& release = *leaving.release;
  const ZooKeeperHolds::Lowered& lowered = leaving.lowered;
  if (code != ZOK && code != ZNONODE) {
    release.status = AtZooKeeper(release.hold.name, code);
    release.outcome_unknown = lowered.kept == nullptr;  // Of a hold that is kept, the count is here.
  }
  if (lowered.kept != nullptr) {
    release.held = code == ZOK;
    if (code == ZNONODE) holds_.TakeOff(lowered.kept);
    return;
  }
  release.held = (lowered.held && code == ZOK) || (release.resent && code == ZNONODE);
  if (lowered.free == nullptr) return;
  // Another acquire of its owner may wait with what is gone, and watches nothing.
  std::shared_ptr<Listener> listener;
  {
    const MutexLock lock(mutex_);
    if (const auto found = listeners_.find(release.hold); found != listeners_.end()) listener = found->second;
  }
  if (listener != nullptr) listener->Notify();
}

absl::StatusOr<std::vector<std::string>> ZooKeeperLockEngine::ListChildren(std::shared_ptr<ZooKeeperSession>& session,
                                                                           std::string_view name, Instant until) {
  while (true) {
    absl::Status why;
    session = connection_.Await(until, why);
    if (session == nullptr) return why;
    const auto round = std::make_shared<ZooKeeperRound>();
    session->Sync(round->Next());
    session->Children(holds_.DirectoryOf(name), round->Next());
    std::vector<ZooKeeperAnswer> answers = round->Await(*clock_, until, session.get());
    int failure = ZOK;
    for (const ZooKeeperAnswer& answer : answers) {
      if (answer.code != ZOK && answer.code != ZNONODE) failure = answer.code;
    }
    if (failure == ZOK) return std::move(answers[1].children);
    // What is asked while the client has no server waits for the next one it tries, so this does not turn in circles.
    if (failure != ZCONNECTIONLOSS || clock_->Now() >= until) return AtZooKeeper(name, failure);
  }
}

absl::StatusOr<LockState> ZooKeeperLockEngine::Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) {
  const Instant until = clock_->Now() + timeout;
  std::shared_ptr<ZooKeeperSession> session;
  const absl::StatusOr<std::vector<std::string>> children = ListChildren(session, name, until);
  if (!children.ok()) return children.status();
  const auto ours = holds_.HeldNodes(name);
  const std::vector<std::string> in = NodesThatAreIn(*children);
  LockState state = {.locked = !in.empty(), .kind = KindOf(in)};
  for (const std::string& node : in) {
    const auto own = ours.find(node);
    if (own == ours.end()) {
      state.remaining = std::max(state.remaining, session->timeout());
      continue;
    }
    state.remaining = std::max(state.remaining, own->second.deadline - clock_->Now());
    if (own->second.owner == owner) state.owner_holds += own->second.count;
  }
  return state;
}

absl::StatusOr<std::optional<LockKind>> ZooKeeperLockEngine::ForceRelease(std::string_view name,
                                                                          absl::Duration timeout) {
  const Instant until = clock_->Now() + timeout;
  std::shared_ptr<ZooKeeperSession> session;
  const absl::StatusOr<std::vector<std::string>> children = ListChildren(session, name, until);
  if (!children.ok()) return children.status();
  const auto round = std::make_shared<ZooKeeperRound>();
  const std::string directory = holds_.DirectoryOf(name);
  const std::vector<std::string> in = NodesThatAreIn(*children);
  for (const std::string& node : in) session->Delete(Concat(directory, "/", node), round->Next());
  std::optional<LockKind> released;
  for (const ZooKeeperAnswer& answer : round->Await(*clock_, until, session.get())) {
    if (answer.code != ZOK && answer.code != ZNONODE) return AtZooKeeper(name, answer.code);
    if (answer.code == ZOK) released = KindOf(in);
  }
  return released;
}

std::unique_ptr<LockWatch> ZooKeeperLockEngine::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  auto listener = std::make_shared<Listener>(hold, std::move(on_hint));
  {
    const MutexLock lock(mutex_);
    listeners_[hold] = listener;
  }
  auto watch = std::make_unique<NodeWatch>(this, listener);
  Listen(hold);
  return watch;
}

void ZooKeeperLockEngine::Listen(const HoldKey& hold) {
  std::shared_ptr<Listener> listener;
  {
    const MutexLock lock(mutex_);
    const auto found = listeners_.find(hold);
    if (found == listeners_.end()) return;
    listener = found->second;
  }
  const std::optional<ZooKeeperNode> before = holds_.WaitsFor(hold);
  if (!before) return listener->Notify();  // Its place is gone.
  {
    const MutexLock lock(listener->mutex);
    if (std::exchange(listener->watched_path, before->path()) == before->path()) return;
  }
  before->session->WatchGone(before->path(), std::shared_ptr<ZooKeeperSession::Gone>(listener, &listener->on_gone));
}

void ZooKeeperLockEngine::TellAll() {
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    const MutexLock lock(mutex_);
    listeners.reserve(listeners_.size());
    for (const auto& [hold, listener] : listeners_) listeners.push_back(listener);
  }
  for (const std::shared_ptr<Listener>& listener : listeners)
    listener->on_gone();  // Deletions in between may have been missed.
}

}  // namespace stockade::locks_internal
