#include "fleet_lane.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "stockade/base/clock.h"
#include "stockade/base/crash_point.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_literal.h"

namespace stockade::inventory_internal {
namespace {

constexpr unsigned kDuplicate = 1062;
constexpr unsigned kNullGuard = 1048;
constexpr unsigned kDeadlock = 1213;
constexpr unsigned kConflict = 3101;
constexpr unsigned kCheckOfMySql = 3819;
constexpr unsigned kCheckOfMariaDb = 4025;
// A row has a number with which the statement exceeds the column, or all numbers: it is damaged.
constexpr unsigned kBeyondColumn = 1264;
constexpr unsigned kBeyondNumbers = 1690;

// Lower lane ids are free for ids of orders that are imported.
constexpr uint32_t kLeastLane = 1U << 20;

// A lane has ids for that many orders. More than a packet has are left over.
constexpr uint32_t kLastSequence = UINT32_MAX - (1U << 20);

// Random ids for a lane, of which even the first is hardly ever taken.
constexpr int kRegisterAttempts = 16;

// Statements of a transaction before those of the packet: SET, START TRANSACTION, UPDATE, SET.
constexpr size_t kBefore = 4;

}  // namespace

FleetLane::FleetLane(const FleetLedger& ledger, int32_t index, MySqlConnection::Meanwhile meanwhile,
                     std::function<void(const absl::Status&)> note_health)
    : ledger_(ledger), index_(index), meanwhile_(std::move(meanwhile)), note_health_(std::move(note_health)) {}

bool FleetLane::connected() const {
  // A packet that is sent to a server that has gone would have an unknown outcome.
  return connection_ != nullptr && !connection_->broken() && !connection_->Stale();
}

Instant FleetLane::Deadline() const { return Clock::System()->Now() + ledger_.packet_timeout; }

std::string FleetLane::Row() const {
  return Concat(" WHERE lane_id=", lane_id_, " AND nonce=", nonce_, " AND fence=", fence_);
}

absl::Status FleetLane::Prepare(absl::Duration longest) {
  absl::Status ready;
  if (!connected()) {
    connection_.reset();
    absl::StatusOr<std::unique_ptr<MySqlConnection>> opened = ledger_.Open(longest, meanwhile_);
    ready = opened.status();
    if (opened.ok()) connection_ = *std::move(opened);
  }
  if (ready.ok() && unsettled_) ready = Settle();
  if (ready.ok() && (lane_id_ == 0 || sequence_ >= kLastSequence)) ready = Register();
  if (!ready.ok()) note_health_(ready);
  return ready;
}

absl::Status FleetLane::Register() {
  for (int attempt = 0; attempt < kRegisterAttempts; ++attempt) {
    // Both, and the ids of orders, fit a signed number.
    const uint32_t lane_id = random_() >> 1 | kLeastLane;
    const uint64_t nonce = uint64_t{random_() >> 1} << 32 | random_();
    // Only in the fleet whose keys this lane uses: an import, which changes them, needs a fleet without lanes.
    const std::string imported =
        ledger_.keys.imported.has_value() ? MySqlLiteral(FleetKeyBytes(*ledger_.keys.imported)) : "NULL";
    const MySqlReply reply = connection_->Run(
        Concat("INSERT INTO ", ledger_.tables.lanes,
               " (lane_id,nonce,fence,batch,created_at,retention_us,seen_at,code) SELECT ", lane_id, ",", nonce,
               ",1,0,", kFleetNow, ",", FleetMicros(ledger_.retention), ",", kFleetNow, ",", kFleetSchemaVersion,
               " FROM ", ledger_.tables.fleet, " WHERE one=1 AND imported_key<=>", imported, " LOCK IN SHARE MODE"),
        Deadline());
    if (reply.error == kDuplicate) continue;
    if (!reply.status.ok()) return reply.status;
    if (reply.rows_matched.front() != 1) {
      return absl::FailedPreconditionError(
          "the fleet was imported after this inventory had connected to it, or its row is missing");
    }
    lane_id_ = lane_id;
    nonce_ = nonce;
    fence_ = 1;
    batch_ = 0;
    sequence_ = 0;
    CrashPoint("fleet: lane registered");
    return absl::OkStatus();
  }
  return absl::UnavailableError(Concat(kRegisterAttempts, " random ids of lanes were all taken"));
}

absl::Status FleetLane::Settle() {
  // The UPDATE waits for a transaction of this lane that is running. If it matches nothing, an earlier try of this has
  // raised the fence already, or somebody has closed the lane.
  CrashPoint("fleet: outcome not known");
  std::vector<std::tuple<int64_t, int64_t>> rows;
  const MySqlReply reply =
      connection_->Run(Concat("UPDATE ", ledger_.tables.lanes, " SET fence=fence+1", Row(), ";SELECT fence,batch FROM ",
                              ledger_.tables.lanes, " WHERE lane_id=", lane_id_, " AND nonce=", nonce_),
                       MySqlInto(rows), Deadline());
  if (!reply.status.ok()) return reply.status;
  unsettled_ = false;
  lost_ = rows.empty();
  if (lost_) {
    lane_id_ = 0;
    return absl::OkStatus();
  }
  std::tie(fence_, committed_) = rows.front();
  return absl::OkStatus();
}

OrderId FleetLane::NextOrders(size_t count) {
  const OrderId first = OrderId{lane_id_} << 32 | (sequence_ + 1);
  sequence_ += static_cast<uint32_t>(count);
  return first;
}

FleetOutcome FleetLane::Run(const FleetPacket& packet) {
  usable_ = false;
  if (absl::Status ready = Prepare(); !ready.ok()) return {.kind = FleetOutcome::Kind::kAway, .status = ready};
  batch_in_doubt_ = ++batch_;
  const FleetScript script(ledger_.tables, packet);
  const std::string sql = Concat("SET @miss=NULL,@now=", kFleetNow, ";START TRANSACTION;UPDATE ", ledger_.tables.lanes,
                                 " SET batch=", batch_, ",seen_at=@now", Row(), ";SET @fence=IF(ROW_COUNT()=1,", fence_,
                                 ",NULL)", script.sql(),
                                 ";SET @end=IF(@fence IS NOT NULL AND @miss IS NULL,'COMMIT','ROLLBACK');PREPARE "
                                 "stockade_end FROM @end;EXECUTE stockade_end;SELECT @fence,@miss,@now");
  unsettled_ = true;
  CrashPoint("fleet: before the packet");
  End end;
  const MySqlReply reply = connection_->Run(sql, MySqlInto(end), Deadline());
  CrashPoint("fleet: after the packet");
  FleetOutcome outcome = Interpret(script, reply, end);
  usable_ = !outcome.is_away();
  return outcome;
}

FleetOutcome FleetLane::Interpret(const FleetScript& script, const MySqlReply& reply, const End& end) {
  using Kind = FleetOutcome::Kind;
  if (reply.status.ok()) {
    const auto& [fence, missed, now] = end;
    if (missed.has_value() && !script.HasTag(*missed)) {
      return ResumeLost(absl::UnavailableError(Concat("MySQL's reply has @miss=", *missed, ", which is no statement")));
    }
    unsettled_ = false;
    if (!fence.has_value()) {
      Renew();
      return {.kind = Kind::kAgain};
    }
    if (missed.has_value()) return {.kind = Kind::kSurprise, .tag = static_cast<size_t>(*missed)};
    return {.kind = Kind::kDone, .now = now};
  }
  const size_t failed = reply.rows_matched.size();
  // After the packet's come SET, PREPARE, EXECUTE and SELECT. Only some errors of a COMMIT say that it was rolled back.
  const bool at_commit = failed >= kBefore + script.size() + 2;
  if (reply.unanswered || (at_commit && reply.error != kDeadlock && reply.error != kConflict)) {
    return ResumeLost(reply.status);
  }
  unsettled_ = false;
  if (reply.error == kNullGuard) {
    Renew();
    return {.kind = Kind::kAgain};
  }
  if (reply.remedy == MySqlRemedy::kRunAgain || reply.remedy == MySqlRemedy::kRollBack) {
    return {.kind = Kind::kAgain, .error = reply.error};
  }
  const bool is_of_packet = failed >= kBefore && failed < kBefore + script.size();
  constexpr unsigned kOfRows[] = {kDuplicate, kCheckOfMySql, kCheckOfMariaDb, kBeyondColumn, kBeyondNumbers};
  const bool is_expected = std::ranges::count(kOfRows, reply.error) > 0;
  if (!is_of_packet || !is_expected) return {.kind = Kind::kAway, .error = reply.error, .status = reply.status};
  return {.kind = Kind::kSurprise, .tag = script.tag(failed - kBefore), .error = reply.error, .status = reply.status};
}

FleetOutcome FleetLane::ResumeLost(const absl::Status& why) {
  // The server may still be running the transaction for the old connection.
  connection_.reset();
  FleetOutcome resumed = Resume();
  if (resumed.kind == FleetOutcome::Kind::kUnknown) resumed.status = why;
  return resumed;
}

FleetOutcome FleetLane::Resume() {
  using Kind = FleetOutcome::Kind;
  const absl::Status ready = Prepare();
  if (unsettled_) return {.kind = Kind::kUnknown, .status = ready};
  if (lost_) return {.kind = Kind::kUnknown, .status = absl::DataLossError("the lane's row in the ledger is gone")};
  return {.kind = committed_ == batch_in_doubt_ ? Kind::kDone : Kind::kAgain};
}

MySqlReply FleetLane::SignOfLife() {
  return Read(Concat("UPDATE ", ledger_.tables.lanes, " SET seen_at=", kFleetNow, Row()));
}

MySqlReply FleetLane::Read(std::string_view statements, std::span<const MySqlSink> results) {
  MySqlReply reply = {.status = Prepare(), .remedy = MySqlRemedy::kReconnect};
  if (reply.status.ok()) reply = connection_->Run(statements, results, Deadline());
  usable_ = reply.status.ok();
  note_health_(reply.status);
  return reply;
}

}  // namespace stockade::inventory_internal
