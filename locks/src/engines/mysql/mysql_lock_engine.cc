#include "mysql_lock_engine.h"

#include <algorithm>
#include <deque>
#include <random>
#include <utility>

#include "../../service/shown_lock.h"
#include "mysql_schema.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/base/url_parts.h"

namespace stockade::locks_internal {
namespace {

// A deadlock's victim runs again at once; after so many it is more than luck.
constexpr int kMostDeadlocks = 20;
// A wait for a row takes a second; one that is not over by the deadline would leave the outcome unknown.
constexpr absl::Duration kRowWait = absl::Milliseconds(1100);
constexpr size_t kMostRenewalsAPacket = 100;
constexpr int kMostPurged = 1000;

Instant Now() { return Clock::System()->Now(); }

std::string NewClientId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = random();
    id.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return id;
}

absl::Status NameLock(std::string_view name, const absl::Status& error) {
  return absl::Status(error.code(), Concat(ShownLock(name), ": ", error.message()));
}

absl::Status PrepareSchema(MySqlConnection& connection, const MySqlLockOptions& options, Instant deadline) {
  const std::string& prefix = options.table_prefix;
  if (options.create_schema) {
    const MySqlReply made = connection.Run(MySqlSchema(prefix), deadline);
    if (!made.status.ok()) return made.status;
  }
  std::vector<MySqlSchemaRow> rows;
  const MySqlReply answer = connection.Run(MySqlSchemaQuery(prefix), MySqlInto(rows), deadline);
  if (!answer.status.ok()) return answer.status;
  if (absl::Status checked = CheckMySqlSchema(prefix, rows); !checked.ok()) return checked;
  // Tries what locks need, on no rows. The server's error names the right and the table.
  return connection.Run(MySqlRightsQuery(prefix), deadline).status;
}

}  // namespace

absl::StatusOr<MySqlTarget> ParseMySqlLockUrl(std::string_view url, MySqlLockOptions& options) {
  std::string create_schema;
  const UrlParameter more[] = {{"create_schema", &create_schema}, {"table_prefix", &options.table_prefix}};
  absl::StatusOr<MySqlTarget> target = ParseMySqlUrl(url,
                                                     {.tls = options.tls,
                                                      .tls_ca_file = options.tls_ca_file,
                                                      .tls_cert_file = options.tls_cert_file,
                                                      .tls_key_file = options.tls_key_file,
                                                      .connect_timeout = options.connect_timeout},
                                                     more);
  if (!target.ok()) return target;
  if (create_schema == "0" || create_schema == "1") {
    options.create_schema = create_schema == "1";
  } else if (!create_schema.empty()) {
    return InvalidUrl("MySQL URL", "create_schema=", QuotedUrlValue(create_schema), " is not 0 or 1");
  }
  options.tls = target->tls;
  options.tls_ca_file = target->tls_ca_file;
  options.tls_cert_file = target->tls_cert_file;
  options.tls_key_file = target->tls_key_file;
  return target;
}

absl::StatusOr<std::unique_ptr<MySqlLockEngine>> MySqlLockEngine::Connect(std::string_view url,
                                                                          MySqlLockOptions options) {
  absl::StatusOr<MySqlTarget> target = ParseMySqlLockUrl(url, options);
  if (!target.ok()) return target.status();
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  const Instant deadline = Now() + options.connect_timeout;
  absl::StatusOr<std::unique_ptr<MySqlConnection>> first = MySqlConnection::Open(*target, -1);
  if (!first.ok()) return first.status();
  if (absl::Status ready = PrepareSchema(**first, options, deadline); !ready.ok()) {
    return absl::Status(
        ready.code(), Concat("MySQL at ", target->Endpoint(), ", database ", target->database, ": ", ready.message()));
  }
  absl::StatusOr<EventFd> stop = EventFd::Create();
  if (!stop.ok()) return stop.status();
  std::unique_ptr<MySqlLockEngine> engine(
      new MySqlLockEngine(*std::move(target), *std::move(first), *std::move(stop), options));
  if (absl::Status started = engine->poller_.Start(); !started.ok()) return started;
  return engine;
}

MySqlLockEngine::MySqlLockEngine(MySqlTarget target, std::unique_ptr<MySqlConnection> first, EventFd stop,
                                 const MySqlLockOptions& options)
    : id_(Concat("mysql ", target.Endpoint(), "/", target.database, "/", options.table_prefix)),
      scripts_(options.table_prefix, NewClientId()),
      engine_timeout_(options.service.engine_timeout),
      token_retention_(options.token_retention),
      pool_(std::move(target), options.max_connections, std::move(first), std::move(stop)),
      poller_(
          {.interval_min = options.poll_interval_min,
           .interval_max = options.poll_interval_max,
           .purge_interval = options.purge_interval},
          Clock::System(), [this](std::span<const std::string> names) { return Ask(names); },
          [this] { return Purge(); }) {}

MySqlLockEngine::~MySqlLockEngine() {
  pool_.Stop();  // So that the poller does not wait for the network.
  poller_.Stop();
}

MySqlLockEngine::Outcome MySqlLockEngine::RunOnce(MySqlConnection& connection, const MySqlPacket& packet,
                                                  std::span<const MySqlSink> results, Instant deadline,
                                                  const std::function<void()>& on_sent) {
  Outcome outcome;
  for (int i = 0; i < kMostDeadlocks; ++i) {
    outcome.reply = connection.Run(packet.statements, results, deadline, /*stop_fd=*/-1, on_sent);
    if (outcome.reply.status.ok()) return outcome;
    if (outcome.reply.remedy == MySqlRemedy::kRunAgain && !connection.broken() && Now() < deadline) continue;
    break;
  }
  const bool rolled_back = outcome.reply.remedy == MySqlRemedy::kRunAgain;
  const size_t ran = outcome.reply.rows_matched.size();
  outcome.unknown = outcome.reply.unanswered || ran > packet.commit || (ran == packet.commit && !rolled_back);
  return outcome;
}

bool MySqlLockEngine::MayWaitAgain(const Outcome& outcome, Instant deadline) {
  return outcome.reply.remedy == MySqlRemedy::kRollBack && !outcome.unknown && Now() + kRowWait < deadline;
}

MySqlLockEngine::Outcome MySqlLockEngine::RunStep(const MySqlPacket& packet, std::span<const MySqlSink> results,
                                                  Instant deadline) {
  Outcome outcome;
  do {
    const absl::StatusOr<MySqlPool::Lent> connection = pool_.Borrow(MySqlPool::Use::kStep, deadline);
    if (!connection.ok()) {
      outcome.reply.status = connection.status();
      return outcome;
    }
    outcome = RunOnce(**connection, packet, results, deadline);
  } while (MayWaitAgain(outcome, deadline));
  return outcome;
}

void MySqlLockEngine::TryMany(std::span<LockTry> tries) {
  struct Pending {
    LockTry* step;
    Instant deadline;
  };
  std::deque<Pending> pending;
  const Instant now = Now();
  for (LockTry& step : tries) pending.push_back({&step, now + step.timeout});
  while (!pending.empty()) {
    const Pending next = pending.front();
    pending.pop_front();
    LockTry& step = *next.step;
    const MySqlPacket packet = scripts_.Try(step);
    absl::StatusOr<MySqlPool::Lent> connection = pool_.Borrow(MySqlPool::Use::kStep, next.deadline);
    step.acquired = false;
    step.outcome_unknown = false;
    if (!connection.ok()) {
      step.status = NameLock(step.hold.name, connection.status());
      continue;
    }
    MySqlLockScripts::TryRow row;
    const Outcome outcome = RunOnce(**connection, packet, MySqlInto(row), next.deadline);
    if (outcome.reply.status.ok()) {
      MySqlLockScripts::TakeAnswer(row, step);
    } else if (MayWaitAgain(outcome, next.deadline)) {
      pending.push_back(next);
    } else {
      step.status = NameLock(step.hold.name, outcome.reply.status);
      step.outcome_unknown = outcome.unknown;
    }
  }
}

void MySqlLockEngine::ReleaseMany(std::span<LockRelease> releases) {
  struct Pending {
    LockRelease* step;
    Instant deadline;
  };
  std::deque<Pending> pending;
  const Instant now = Now();
  for (LockRelease& release : releases) pending.push_back({&release, now + release.timeout});
  while (!pending.empty()) {
    const Pending next = pending.front();
    pending.pop_front();
    if (!ReleaseOnce(*next.step, next.deadline)) pending.push_back(next);
  }
}

bool MySqlLockEngine::ReleaseOnce(LockRelease& release, Instant deadline) {
  // InnoDB unlocks a transaction's rows before it is on the disk. So a try that comes right behind the release waits
  // for the rows only, and shares the write to the disk with it. The waiters are notified again below, in case a try
  // came before the release.
  const auto on_sent = [&] {
    if (release.keep <= 0) poller_.TellReleased(release.hold.name);
  };
  Outcome outcome;
  MySqlLockScripts::ReleaseRow row;
  {
    const absl::StatusOr<MySqlPool::Lent> connection = pool_.Borrow(MySqlPool::Use::kStep, deadline);
    if (connection.ok()) {
      outcome = RunOnce(**connection, scripts_.Release(release), MySqlInto(row), deadline, on_sent);
    } else {
      outcome.reply.status = connection.status();
    }
  }
  if (MayWaitAgain(outcome, deadline)) return false;
  release.held = false;
  release.outcome_unknown = outcome.unknown;
  if (!outcome.reply.status.ok()) {
    release.status = NameLock(release.hold.name, outcome.reply.status);
  } else if (MySqlLockScripts::TakeAnswer(row, release)) {
    poller_.TellReleased(release.hold.name);
  }
  return true;
}

void MySqlLockEngine::RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) {
  const Instant deadline = Now() + timeout;
  std::vector<LockRenewal*> all;
  all.reserve(renewals.size());
  for (LockRenewal& renewal : renewals) all.push_back(&renewal);
  MySqlLockScripts::SortForRenewal(all);
  for (size_t begin = 0; begin < all.size(); begin += kMostRenewalsAPacket) {
    const size_t end = std::min(begin + kMostRenewalsAPacket, all.size());
    std::vector<LockRenewal*> together(all.begin() + static_cast<ptrdiff_t>(begin),
                                       all.begin() + static_cast<ptrdiff_t>(end));
    while (!together.empty()) together = RenewTogether(std::move(together), deadline);
  }
}

// Gives what is to be sent again: all but the one that failed.
std::vector<LockRenewal*> MySqlLockEngine::RenewTogether(std::vector<LockRenewal*> renewals, Instant deadline) {
  const MySqlPacket packet = scripts_.Renew(renewals);
  Outcome outcome;
  {
    const absl::StatusOr<MySqlPool::Lent> connection = pool_.Borrow(MySqlPool::Use::kUpkeep, deadline);
    if (connection.ok()) {
      outcome = RunOnce(**connection, packet, {}, deadline);
    } else {
      outcome.reply.status = connection.status();
    }
  }
  const std::vector<int64_t>& matched = outcome.reply.rows_matched;
  const absl::Status& status = outcome.reply.status;
  if (outcome.reply.remedy == MySqlRemedy::kRollBack && !matched.empty() && matched.size() <= renewals.size()) {
    const auto failed = renewals.begin() + static_cast<ptrdiff_t>(matched.size()) - 1;
    (*failed)->status = NameLock((*failed)->hold.name, status);
    renewals.erase(failed);
    return renewals;
  }
  for (size_t i = 0; i < renewals.size(); ++i) {
    renewals[i]->status = status.ok() ? status : NameLock(renewals[i]->hold.name, status);
    renewals[i]->held = status.ok() && matched[i + 1] > 0;
  }
  return {};
}

absl::StatusOr<LockState> MySqlLockEngine::Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) {
  const Instant deadline = Now() + timeout;
  const absl::StatusOr<MySqlPool::Lent> connection = pool_.Borrow(MySqlPool::Use::kUpkeep, deadline);
  if (!connection.ok()) return NameLock(name, connection.status());
  MySqlLockScripts::InspectRow row;
  const MySqlReply reply = (*connection)->Run(scripts_.Inspect(name, owner), MySqlInto(row), deadline);
  if (!reply.status.ok()) return NameLock(name, reply.status);
  return MySqlLockScripts::InspectAnswer(row, name);
}

absl::StatusOr<std::optional<LockKind>> MySqlLockEngine::ForceRelease(std::string_view name, absl::Duration timeout) {
  MySqlLockScripts::ForceReleaseRow row;
  const Outcome outcome = RunStep(scripts_.ForceRelease(name), MySqlInto(row), Now() + timeout);
  if (!outcome.reply.status.ok()) return NameLock(name, outcome.reply.status);
  absl::StatusOr<std::optional<LockKind>> freed = MySqlLockScripts::ForceReleaseAnswer(row, name);
  if (freed.ok() && *freed) poller_.TellReleased(name);
  return freed;
}

std::unique_ptr<LockWatch> MySqlLockEngine::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  return poller_.Watch(hold, std::move(on_hint));
}

std::optional<std::vector<NameState>> MySqlLockEngine::Ask(std::span<const std::string> names) {
  const Instant deadline = Now() + engine_timeout_;
  const absl::StatusOr<MySqlPool::Lent> connection = pool_.Borrow(MySqlPool::Use::kUpkeep, deadline);
  if (!connection.ok()) return std::nullopt;
  std::vector<MySqlLockScripts::AskRow> rows;
  const MySqlReply reply = (*connection)->Run(scripts_.Ask(names), MySqlInto(rows), deadline, pool_.stop_fd());
  if (!reply.status.ok()) return std::nullopt;
  return MySqlLockScripts::AskAnswer(rows, names.size());
}

bool MySqlLockEngine::Purge() {
  const Instant deadline = Now() + engine_timeout_;
  const absl::StatusOr<MySqlPool::Lent> connection = pool_.Borrow(MySqlPool::Use::kUpkeep, deadline);
  if (!connection.ok()) return false;
  const MySqlReply reply = (*connection)->Run(scripts_.Purge(token_retention_, kMostPurged), deadline, pool_.stop_fd());
  return std::ranges::find(reply.rows_matched, kMostPurged) != reply.rows_matched.end();
}

}  // namespace stockade::locks_internal
