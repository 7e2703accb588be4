#include "mysql_lock_scripts.h"

#include <algorithm>
#include <limits>

#include "../../service/shown_lock.h"
#include "absl/strings/escaping.h"
#include "mysql_schema.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_literal.h"

namespace stockade::locks_internal {
namespace {

// Microseconds since 1970 when the statement began. In UTC by itself, so that no time zone or leap hour counts.
constexpr std::string_view kNow = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

// How long a hold's row outlives the hold. So late may a step come that is still refused.
constexpr int64_t kAfterlifeUs = 20'000'000;

// An index takes 3,072 bytes, so longer names go by the beginning and a hash: 256 bytes, which no other name has.
constexpr size_t kMostWholeBytes = 255;
constexpr size_t kBeginningBytes = 192;

// Answers of the statements of Try().
enum TryAnswer : int { kBusy = 0, kAcquired = 1, kStaleTry = 2, kOtherKind = 3, kNoToken = 4 };
// Of those of Release(), beside those of MySqlNewestStep.
constexpr int kStaleRelease = 4;

constexpr int64_t kLargestToken = std::numeric_limits<int64_t>::max();

std::string NameExpression(std::string_view name) {
  if (name.size() <= kMostWholeBytes) return MySqlLiteral(name);
  return Concat("CONCAT(", MySqlLiteral(name.substr(0, kBeginningBytes)), ",SHA2(", MySqlLiteral(name), ",256))");
}

int64_t Microseconds(absl::Duration span) {
  constexpr absl::Duration kMost = absl::Hours(24 * 365 * 100);
  return absl::ToInt64Microseconds(absl::Ceil(std::min(span, kMost), absl::Microseconds(1)));
}

// Of the holds of a name: a kind that none of ours has, or NULL.
constexpr std::string_view kStrangeKind = "MAX(IF(kind IN (0,2,3),NULL,kind))";

// FailedPrecondition if that is not NULL.
absl::Status CheckKinds(std::optional<int64_t> strange, std::string_view name) {
  if (!strange.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Concat(ShownLock(name), ": the table of holds has a row of kind ", *strange, " for it, which no lock has"));
}

constexpr int Number(LockKind kind) { return static_cast<int>(kind); }
int Number(MySqlNewestStep step) { return static_cast<int>(step); }

// Of the locks of this engine.
bool IsKind(int64_t kind) {
  return kind == Number(LockKind::kReentrant) || kind == Number(LockKind::kRead) || kind == Number(LockKind::kWrite);
}

// The kinds that one name is used with together.
std::string_view Family(LockKind kind) {
  static_assert(static_cast<int>(LockKind::kReentrant) == 0 && static_cast<int>(LockKind::kRead) == 2 &&
                static_cast<int>(LockKind::kWrite) == 3);
  return kind == LockKind::kReentrant ? "(0)" : "(2,3)";
}

// Those of which another owner's hold keeps this one out.
std::string_view Excluding(LockKind kind) {
  if (kind == LockKind::kReentrant) return "(0)";
  return kind == LockKind::kRead ? "(3)" : "(2,3)";
}

absl::Status Overtaken(std::string_view name) {
  return absl::AbortedError(Concat(ShownLock(name), ": a later step of its holder has been run"));
}

absl::Status Unexpected(std::string_view name) {
  return absl::InternalError(Concat(ShownLock(name), ": MySQL returned an unexpected result"));
}

}  // namespace

MySqlLockScripts::MySqlLockScripts(std::string_view table_prefix, std::string_view client_id)
    : locks_(MySqlLocksTable(table_prefix)),
      holds_(MySqlHoldsTable(table_prefix)),
      client_id_(absl::BytesToHexString(AbslView(client_id))) {}

std::string MySqlLockScripts::Owner(OwnerId owner) const {
  return Concat("X'", client_id_, absl::Hex(owner, absl::kZeroPad16), "'");
}

std::string MySqlLockScripts::BeginStep(std::string_view name) const {
  return Concat("START TRANSACTION;INSERT INTO ", locks_, " (name,token,used_at) VALUES (", name, ",0,", kNow,
                ") ON DUPLICATE KEY UPDATE token=token;");
}

// The rows are read by locking reads, which see what is committed and not what it was when some view of it was taken:
// a try once found no row of a name whose row its INSERT had just locked.
//
// What has lapsed ends for good before anybody is let in: a renewal that waits for its row finds it so. The rows of a
// name change under its lock, except by renewals, which end nothing: so what is read then still lives at the end. A
// write of an owner that reads has to wait for the last of those that keep it out.
MySqlPacket MySqlLockScripts::Try(const LockTry& step) const {
  const std::string name = NameExpression(step.hold.name);
  const std::string owner = Owner(step.hold.owner);
  const LockKind kind = step.hold.kind;
  const int64_t lease = Microseconds(step.lease);
  const std::string own = Concat("kind=", Number(kind), " AND owner=", owner);
  // What remains of the owner's own read lease blocks its write, unless the write is a re-entry.
  const std::string read_until =
      kind == LockKind::kWrite
          ? Concat("IF(MAX(", own, " AND hold_count>0),NULL,MAX(IF(hold_count>0 AND kind=", Number(LockKind::kRead),
                   " AND owner=", owner, ",expires_at,NULL)))")
          : "CAST(NULL AS SIGNED)";
  return {.statements = Concat(
              BeginStep(name), "UPDATE ", holds_, " SET hold_count=0 WHERE name=", name,
              " AND hold_count>0 AND expires_at<=", kNow,
              ";"
              "SELECT now_us,GREATEST(COALESCE(free_at,read_until),COALESCE(read_until,free_at)),",
              "GREATEST(token+(token<", kLargestToken, "),now_us,", step.least_token, "),own_count+(NOT sequence<=>",
              step.sequence, "),", "CASE WHEN sequence>", step.sequence, " OR (sequence=", step.sequence,
              " AND (newest_step<>", Number(MySqlNewestStep::kTry), " OR own_count=0)) THEN ", int{kStaleTry},    //
              " WHEN strange THEN ", int{kOtherKind},                                                             //
              " WHEN free_at IS NOT NULL OR read_until IS NOT NULL THEN ", int{kBusy},                            //
              " WHEN token>=", kLargestToken, " THEN ", int{kNoToken},                                            //
              " ELSE ", int{kAcquired}, " END ",                                                                  //
              "INTO @now,@free_at,@token,@count,@answer FROM (SELECT ", kNow, " AS now_us,",                      //
              "(SELECT token FROM ", locks_, " WHERE name=", name, " FOR UPDATE) AS token,",                      //
              "MAX(IF(", own, ",sequence,NULL)) AS sequence,",                                                    //
              "MAX(IF(", own, ",newest_step,NULL)) AS newest_step,",                                              //
              "COALESCE(MAX(IF(", own, ",hold_count,0)),0) AS own_count,",                                        //
              "MAX(hold_count>0 AND kind NOT IN ", Family(kind), ") AS strange,", read_until, " AS read_until,",  //
              "MAX(IF(hold_count>0 AND kind IN ", Excluding(kind), " AND owner<>", owner,
              ",expires_at,NULL)) AS free_at ", "FROM ", holds_, " WHERE name=", name, " FOR UPDATE) AS found;",  //
              "UPDATE ", locks_, " SET token=@token,used_at=@now WHERE name=", name, " AND @answer=", int{kAcquired},
              ";INSERT INTO ", holds_, " (name,kind,owner,hold_count,expires_at,sequence,newest_step) SELECT ", name,
              ",", Number(kind), ",", owner, ",@count,@now+", lease, ",", step.sequence, ",",
              Number(MySqlNewestStep::kTry), " FROM DUAL WHERE @answer=", int{kAcquired},
              " ON DUPLICATE KEY UPDATE hold_count=@count,expires_at=GREATEST(expires_at,@now+", lease,
              "),sequence=", step.sequence, ",newest_step=", Number(MySqlNewestStep::kTry),
              ";COMMIT;SELECT @answer,@count,@token,@free_at-@now"),
          .commit = 6};
}

void MySqlLockScripts::TakeAnswer(const TryRow& row, LockTry& step) {
  const auto& [answer, count, token, free_in] = row;
  step.status = absl::OkStatus();
  switch (answer.value_or(-1)) {
    case kAcquired:
      if (!count.has_value() || !token.has_value()) break;
      step.acquired = true;
      step.hold_count = *count;
      step.fencing_token = *token;
      return;
    case kBusy: step.retry_after = absl::Microseconds(std::max<int64_t>(free_in.value_or(0), 0)); return;
    case kStaleTry: step.status = Overtaken(step.hold.name); return;
    case kNoToken:
      step.status = absl::FailedPreconditionError(
          Concat(ShownLock(step.hold.name), ": its row has the largest fencing token, ", kLargestToken));
      return;
    case kOtherKind:
      step.status = absl::FailedPreconditionError(Concat(ShownLock(step.hold.name), ": held as another kind"));
      return;
    default: break;
  }
  step.status = Unexpected(step.hold.name);
  step.outcome_unknown = true;
}

// @drops: the row goes; @runs without it: it stays, with what is kept or, of a hold that has ended, to be remembered.
MySqlPacket MySqlLockScripts::Release(const LockRelease& step) const {
  const std::string name = NameExpression(step.hold.name);
  const std::string owner = Owner(step.hold.owner);
  const std::string own = Concat("kind=", Number(step.hold.kind), " AND owner=", owner);
  const bool outlives = step.repeated || step.gives_up;
  const std::string live = Concat("hold_count>0 AND expires_at>", kNow);
  return {
      .statements = Concat(
          BeginStep(name), "SELECT now_us,others,LEAST(own_count,", std::max<int64_t>(step.keep, 0), "),",
          "sequence IS NULL OR sequence<", step.sequence, " OR (sequence=", step.sequence,
          " AND newest_step=", Number(MySqlNewestStep::kTry), "),",       //
          "CASE WHEN sequence>", step.sequence, " THEN ", kStaleRelease,  //
          " WHEN sequence=", step.sequence, " AND newest_step<>", Number(MySqlNewestStep::kTry), " THEN newest_step",
          " WHEN own_count>0 THEN ", Number(MySqlNewestStep::kReleased),                                 //
          " WHEN sequence IS NULL THEN ", Number(MySqlNewestStep::kNeverHeard),                          //
          " ELSE ", Number(MySqlNewestStep::kNotHeld), " END,",                                          //
          "own_count>0 INTO @now,@others,@keep,@runs,@answer,@held FROM (SELECT ", kNow, " AS now_us,",  //
          "MAX(IF(", own, ",sequence,NULL)) AS sequence,",                                               //
          "MAX(IF(", own, ",newest_step,NULL)) AS newest_step,",                                         //
          "COALESCE(MAX(IF(", own, " AND ", live, ",hold_count,0)),0) AS own_count,",                    //
          "COALESCE(SUM(", live, " AND NOT (", own, ")),0) AS others FROM ", holds_, " WHERE name=", name,
          " FOR UPDATE) AS found;"
          "SET @drops=@runs AND @held AND @keep=0 AND ",
          outlives ? 0 : 1, ";",  //
          "INSERT INTO ", holds_, " (name,kind,owner,hold_count,expires_at,sequence,newest_step) SELECT ", name, ",",
          Number(step.hold.kind), ",", owner, ",@keep,@now,", step.sequence,
          ",@answer FROM DUAL WHERE @runs AND NOT @drops",
          " ON DUPLICATE KEY UPDATE expires_at=IF(@keep>0,expires_at,@now),hold_count=@keep,sequence=", step.sequence,
          ",newest_step=@answer;"
          "DELETE FROM ",
          holds_, " WHERE name=", name, " AND ", own,
          " AND @drops;"
          "COMMIT;SELECT @answer,@runs AND @held AND @keep=0,@others"),
      .commit = 6};
}

bool MySqlLockScripts::TakeAnswer(const ReleaseRow& row, LockRelease& step) {
  const auto& [answer, ended, others] = row;
  step.status = absl::OkStatus();
  switch (answer.value_or(-1)) {
    case kStaleRelease: step.status = Overtaken(step.hold.name); return false;
    case static_cast<int>(MySqlNewestStep::kReleased): step.held = true; break;
    case static_cast<int>(MySqlNewestStep::kNotHeld): break;
    // The first time it took the row along with the hold.
    case static_cast<int>(MySqlNewestStep::kNeverHeard): step.held = step.resent; break;
    default:
      step.status = Unexpected(step.hold.name);
      step.outcome_unknown = true;
      return false;
  }
  return ended.value_or(false) && (step.hold.kind == LockKind::kWrite || others.value_or(0) == 0);
}

void MySqlLockScripts::SortForRenewal(std::vector<LockRenewal*>& renewals) {
  std::ranges::sort(renewals, {}, [](const LockRenewal* renewal) {
    return std::tie(renewal->hold.name, renewal->hold.kind, renewal->hold.owner);
  });
}

// A hold lives as long as the lease from now on, not longer: that corrects an end that became too late when the
// database's clock stepped back. After a later step, which may have set a longer lease, it is not made earlier.
MySqlPacket MySqlLockScripts::Renew(std::span<LockRenewal* const> renewals) const {
  MySqlPacket packet = {.statements = "START TRANSACTION;", .commit = renewals.size() + 1};
  for (const LockRenewal* const renewal : renewals) {
    packet.statements +=
        Concat("UPDATE ", holds_, " SET expires_at=GREATEST(IF(sequence>", renewal->sequence, ",expires_at,0),", kNow,
               "+", Microseconds(renewal->lease), ") WHERE name=", NameExpression(renewal->hold.name),
               " AND kind=", Number(renewal->hold.kind), " AND owner=", Owner(renewal->hold.owner),
               " AND hold_count>0 AND expires_at>", kNow, ";");
  }
  packet.statements += "COMMIT";
  return packet;
}

MySqlPacket MySqlLockScripts::ForceRelease(std::string_view name) const {
  const std::string expression = NameExpression(name);
  const std::string live = Concat(" WHERE name=", expression, " AND hold_count>0 AND expires_at>", kNow);
  return {.statements = Concat(BeginStep(expression), "SELECT MAX(kind),", kStrangeKind, " INTO @kind,@strange FROM ",
                               holds_, live, " FOR UPDATE;UPDATE ", holds_, " SET hold_count=0,expires_at=", kNow, live,
                               " AND @strange IS NULL;COMMIT;SELECT @kind,@strange"),
          .commit = 4};
}

absl::StatusOr<std::optional<LockKind>> MySqlLockScripts::ForceReleaseAnswer(const ForceReleaseRow& row,
                                                                             std::string_view name) {
  const auto& [kind, strange] = row;
  if (absl::Status known = CheckKinds(strange, name); !known.ok()) return known;
  if (!kind.has_value()) return std::nullopt;
  if (!IsKind(*kind)) return Unexpected(name);
  return static_cast<LockKind>(*kind);
}

// The greatest kind of those that go together is what the lock is held as.
std::string MySqlLockScripts::Inspect(std::string_view name, OwnerId owner) const {
  static_assert(LockKind::kWrite > LockKind::kRead);
  return Concat("SELECT MAX(expires_at)-", kNow, ",MAX(kind),SUM(IF(owner=", Owner(owner), ",hold_count,0)),",
                kStrangeKind, " FROM ", holds_, " WHERE name=", NameExpression(name),
                " AND hold_count>0 AND expires_at>", kNow);
}

absl::StatusOr<LockState> MySqlLockScripts::InspectAnswer(const InspectRow& row, std::string_view name) {
  const auto& [left, kind, owner_holds, strange] = row;
  if (absl::Status known = CheckKinds(strange, name); !known.ok()) return known;
  if (left.value_or(-1) < 0) return LockState();
  if (!IsKind(kind.value_or(-1))) return Unexpected(name);
  return LockState{.locked = true,
                   .kind = static_cast<LockKind>(*kind),
                   .owner_holds = owner_holds.value_or(0),
                   .remaining = absl::Microseconds(*left)};
}

std::string MySqlLockScripts::Ask(std::span<const std::string> names) const {
  std::string wanted;
  for (size_t i = 0; i < names.size(); ++i) {
    wanted += Concat(i == 0 ? "SELECT " : " UNION ALL SELECT ", i, " AS place,", NameExpression(names[i]), " AS name");
  }
  return Concat("SELECT wanted.place,held.kind,BIT_XOR((CRC32(held.owner)<<32)^held.sequence) FROM (", wanted,
                ") AS wanted STRAIGHT_JOIN ", holds_, " AS held ON held.name=wanted.name ",
                "WHERE held.hold_count>0 AND held.expires_at>", kNow, " GROUP BY wanted.place,held.kind");
}

std::vector<NameState> MySqlLockScripts::AskAnswer(std::span<const AskRow> rows, size_t names) {
  std::vector<NameState> states(names);
  for (const auto& [place, kind, newest] : rows) {
    if (place >= names) continue;
    NameState& state = states[place];
    switch (kind) {
      case Number(LockKind::kRead): state.read = true; break;
      case Number(LockKind::kWrite): state.written = true; break;
      default: state.held = true;
    }
    state.newest ^= newest;
  }
  return states;
}

std::string MySqlLockScripts::Purge(absl::Duration token_retention, int most) const {
  std::string holds = Concat("DELETE FROM ", holds_, " WHERE expires_at<", kNow, "-", kAfterlifeUs,
                             " ORDER BY expires_at LIMIT ", most);
  if (token_retention == absl::InfiniteDuration()) return holds;
  return Concat(holds, ";DELETE FROM ", locks_, " WHERE used_at<", kNow, "-", Microseconds(token_retention),
                " ORDER BY used_at LIMIT ", most);
}

}  // namespace stockade::locks_internal
