#include "zookeeper_try.h"

#include <utility>

#include "../../service/shown_lock.h"
#include "stockade/base/strings.h"
#include "zookeeper_nodes.h"

namespace stockade::locks_internal {
namespace {

// A node of ours that is gone again and again, or a lock's node that is cleaned up whenever it has been made.
constexpr int kMostBeginnings = 5;

absl::Status OtherKind(const HoldKey& hold) {
  return absl::FailedPreconditionError(
      Concat(ShownLock(hold.name), " is used as another kind of lock than ", LockKindName(hold.kind)));
}

bool SessionOver(int code) { return code == ZSESSIONEXPIRED || code == ZCLOSING || code == ZINVALIDSTATE; }

}  // namespace

void ZooKeeperTry::Send(ZooKeeperRound& round) {
  if (ask_ == Ask::kBegin) Begin(/*peeked=*/false);
  if (done_) return;
  first_ = round.size();
  const std::string directory = holds_.DirectoryOf(step_.hold.name);
  switch (ask_) {
    case Ask::kBegin: break;
    case Ask::kPeek:
      session_->Sync(round.Next());
      session_->Children(directory, round.Next());
      break;
    case Ask::kMakeAll:
      if (std::exchange(made_all_, true)) {
        for (const std::string& parent : ParentsOf(directory)) session_->Create(parent, ZOO_PERSISTENT, round.Next());
      }
      // Its own node: the servers delete it some time after its last child.
      session_->Create(directory, ZOO_CONTAINER, round.Next());
      [[fallthrough]];
    case Ask::kMake:
      session_->Create(Concat(directory, "/", hold_->prefix), ZOO_EPHEMERAL_SEQUENTIAL, round.Next());
      session_->Children(directory, round.Next());
      break;
    case Ask::kNest:
      session_->CreateBeside(Concat(directory, "/", NestedName(hold_->prefix, write_->name)),
                             Concat(directory, "/", write_->name), round.Next());
      break;
    case Ask::kLook: session_->Children(directory, round.Next()); break;
    case Ask::kRecover:
      session_->Barrier(round.Next());
      session_->Children(directory, round.Next());
      break;
    case Ask::kToken: session_->Exists(Concat(directory, "/", hold_->name), round.Next()); break;
    case Ask::kReenter:
      session_->Sync(round.Next());
      session_->Exists(Concat(directory, "/", hold_->name), round.Next());
      break;
    case Ask::kDiscard:
    case Ask::kUndo: holds_.Discard(hold_, [answered = round.Next()](bool) { answered({}); }); break;
  }
  asked_ = round.size() - first_;
}

void ZooKeeperTry::Read(std::span<ZooKeeperAnswer> all) {
  const std::span<ZooKeeperAnswer> answers = all.subspan(first_, asked_);
  switch (ask_) {
    case Ask::kBegin: break;
    case Ask::kPeek: return ReadPeek(answers);
    case Ask::kMake: return ReadMake(answers[0], answers[1]);
    case Ask::kMakeAll: return ReadMakeAll(answers);
    case Ask::kNest: return ReadNest(answers[0]);
    case Ask::kLook: return Judge(answers[0]);
    case Ask::kRecover: return ReadRecover(answers[0], answers[1]);
    case Ask::kToken: return ReadToken(answers[0]);
    case Ask::kReenter: return ReadReenter(answers[1]);
    case Ask::kDiscard:
      if (IsUnanswered(answers[0].code)) return Fail(answers[0].code, /*unknown=*/false);
      return Begin(/*peeked=*/false);
    case Ask::kUndo:
      // Not answered yet: the janitor has it, and what comes after it waits for it as for anybody's.
      step_.status = outcome_;
      return Finish();
  }
}

void ZooKeeperTry::Begin(bool peeked) {
  ZooKeeperHolds::Begun begun = holds_.Begin(step_, session_, peeked);
  if (beginnings_++ == 0) had_place_ = begun.next == ZooKeeperHolds::Next::kLook;
  hold_ = std::move(begun.hold);
  write_ = std::move(begun.write);
  switch (begun.next) {
    case ZooKeeperHolds::Next::kAnswered: return Finish();
    case ZooKeeperHolds::Next::kPeek: ask_ = Ask::kPeek; break;
    case ZooKeeperHolds::Next::kMake: ask_ = Ask::kMake; break;
    case ZooKeeperHolds::Next::kNest: ask_ = Ask::kNest; break;
    case ZooKeeperHolds::Next::kLook: ask_ = Ask::kLook; break;
    case ZooKeeperHolds::Next::kRecover: ask_ = Ask::kRecover; break;
    case ZooKeeperHolds::Next::kReenter: ask_ = Ask::kReenter; break;
    case ZooKeeperHolds::Next::kDiscard: ask_ = Ask::kDiscard; break;
  }
}

void ZooKeeperTry::ReadPeek(std::span<ZooKeeperAnswer> answers) {
  const int code = answers[0].code != ZOK && answers[0].code != ZNONODE ? answers[0].code : answers[1].code;
  if (code != ZOK && code != ZNONODE) return Fail(code, /*unknown=*/false);
  const QueuePlace place = PlaceAtEnd(answers[1].children, step_.hold.kind);
  if (place.other_kind) {
    step_.status = OtherKind(step_.hold);
    return Finish();
  }
  if (place.waits_for) return Finish();
  Begin(/*peeked=*/true);
}

void ZooKeeperTry::ReadMake(const ZooKeeperAnswer& made, ZooKeeperAnswer& children) {
  if (made.code == ZNONODE) {
    if (beginnings_++ > kMostBeginnings) return Fail(ZNONODE, /*unknown=*/true);
    ask_ = Ask::kMakeAll;
    return;
  }
  if (made.code != ZOK) return Fail(made.code, /*unknown=*/true);
  if (!holds_.Made(hold_, made.path.substr(made.path.rfind('/') + 1), made.czxid)) return Lapsed();
  Judge(children);
}

void ZooKeeperTry::ReadMakeAll(std::span<ZooKeeperAnswer> answers) {
  const std::span<ZooKeeperAnswer> last = answers.last(3);
  const bool directory_refused = last[0].code == ZNOAUTH || last[0].code == ZUNIMPLEMENTED;
  if (directory_refused && last[1].code == ZNONODE) return Fail(last[0].code, /*unknown=*/true);
  ReadMake(last[1], last[2]);
}

void ZooKeeperTry::ReadNest(const ZooKeeperAnswer& made) {
  if (made.code == ZNONODE) {
    holds_.TakeOff(write_);  // It was taken away.
    return Again();
  }
  if (made.code != ZOK) return Fail(made.code, /*unknown=*/true);
  if (!holds_.Made(hold_, NestedName(hold_->prefix, write_->name), std::nullopt)) return Lapsed();
  Enter();
}

void ZooKeeperTry::ReadRecover(const ZooKeeperAnswer& barrier, ZooKeeperAnswer& children) {
  if (barrier.code != ZOK) return Fail(barrier.code, /*unknown=*/true);
  if (children.code == ZNONODE) return Again();
  if (children.code != ZOK) return Fail(children.code, /*unknown=*/true);
  std::optional<std::string> name = FindByPrefix(children.children, hold_->prefix);
  if (!name) return Again();
  if (!holds_.Made(hold_, *std::move(name), std::nullopt)) return Lapsed();
  Judge(children);
}

void ZooKeeperTry::Judge(const ZooKeeperAnswer& children) {
  if (children.code != ZOK && children.code != ZNONODE) return Fail(children.code, /*unknown=*/true);
  QueuePlace place = PlaceOf(children.children, hold_->name);
  if (!place.there) return Again();
  if (place.other_kind) return UndoTry(OtherKind(step_.hold));
  if (!place.waits_for) {
    if (hold_->token) return Enter();
    ask_ = Ask::kToken;
    return;
  }
  if (!step_.queue && !had_place_) return UndoTry(absl::OkStatus());
  if (!holds_.Queue(hold_, *std::move(place.waits_for))) return Lapsed();
  Finish();
}

void ZooKeeperTry::ReadToken(const ZooKeeperAnswer& exists) {
  if (exists.code == ZNONODE) return Again();
  if (exists.code != ZOK) return Fail(exists.code, /*unknown=*/true);
  if (!holds_.Made(hold_, hold_->name, exists.czxid)) return Lapsed();
  Enter();
}

void ZooKeeperTry::ReadReenter(const ZooKeeperAnswer& exists) {
  if (exists.code == ZNONODE) return Again();
  if (exists.code != ZOK) return Fail(exists.code, /*unknown=*/false);
  Enter();
}

void ZooKeeperTry::Enter() {
  if (!holds_.Enter(hold_, step_)) return Lapsed();
  Finish();
}

void ZooKeeperTry::Again() {
  holds_.TakeOff(hold_);
  if (beginnings_ > kMostBeginnings) return Fail(ZNONODE, false);
  Begin(/*peeked=*/false);
}

void ZooKeeperTry::UndoTry(absl::Status status) {
  outcome_ = std::move(status);
  ask_ = Ask::kUndo;
}

void ZooKeeperTry::Fail(int code, bool unknown) {
  const std::string doing = Concat(ShownLock(step_.hold.name), " at ZooKeeper");
  step_.status = code == ZNONODE
                     ? absl::UnavailableError(Concat(doing, ": its node is deleted each time it is created"))
                     : ZooKeeperError(doing, code);
  // A node that is looked for may be there, whatever becomes of the looking.
  step_.outcome_unknown = unknown && !SessionOver(code) &&
                          (IsUnanswered(code) || ask_ == Ask::kRecover || hold_->state != ZooKeeperHold::State::kAsked);
  // Refused, or gone with its session: there is nothing to find again.
  if (unknown && !step_.outcome_unknown) holds_.TakeOff(hold_);
  Finish();
}

void ZooKeeperTry::Lapsed() {
  step_.status = absl::UnavailableError(
      Concat(ShownLock(step_.hold.name), ": ZooKeeper took so long to answer that its place was given up"));
  Finish();
}

}  // namespace stockade::locks_internal
