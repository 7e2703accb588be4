#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_TRY_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_TRY_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "stockade/locks/lock_engine.h"
#include "zookeeper_holds.h"
#include "zookeeper_round.h"

namespace stockade::locks_internal {

// One try, in rounds: Send() and Read() by turns until done(). Most take one round. Not thread-safe.
//
// A try that is not answered leaves what it has asked for in the table: the next step of its hold finds it there, and
// behind a barrier its node by its prefix, or that there is none.
class ZooKeeperTry {
 public:
  // All outlive it.
  ZooKeeperTry(ZooKeeperHolds& holds, const std::shared_ptr<ZooKeeperSession>& session, LockTry& step)
      : holds_(holds), session_(session), step_(step) {}

  bool done() const { return done_; }
  void Send(ZooKeeperRound& round);
  // What the round has answered.
  void Read(std::span<ZooKeeperAnswer> answers);

 private:
  enum class Ask {
    kBegin,    // Nothing yet.
    kPeek,     // sync, children
    kMake,     // create, children
    kMakeAll,  // create the lock's node, where that fails its parents too, create, children
    kNest,     // create beside
    kLook,     // children
    kRecover,  // barrier, children
    kToken,    // exists
    kReenter,  // sync, exists
    kDiscard,  // delete, by the janitor
    kUndo      // delete, by the janitor
  };

  void Begin(bool peeked);
  void ReadPeek(std::span<ZooKeeperAnswer> answers);
  void ReadMake(const ZooKeeperAnswer& made, ZooKeeperAnswer& children);
  void ReadMakeAll(std::span<ZooKeeperAnswer> answers);
  void ReadNest(const ZooKeeperAnswer& made);
  void ReadRecover(const ZooKeeperAnswer& barrier, ZooKeeperAnswer& children);
  void ReadToken(const ZooKeeperAnswer& exists);
  void ReadReenter(const ZooKeeperAnswer& exists);
  // Decides by the place of the node in the queue.
  void Judge(const ZooKeeperAnswer& children);
  void Enter();
  // The node is gone: starts again, a limited number of times.
  void Again();
  // Deletes its node, and then has this outcome.
  void UndoTry(absl::Status status);
  void Finish() { done_ = true; }
  void Fail(int code, bool unknown);
  void Lapsed();

  ZooKeeperHolds& holds_;
  const std::shared_ptr<ZooKeeperSession>& session_;
  LockTry& step_;
  Ask ask_ = Ask::kBegin;
  ZooKeeperHolds::HoldPtr hold_ = nullptr;
  ZooKeeperHolds::HoldPtr write_ = nullptr;  // That the node is within.
  bool had_place_ = false;                   // When it began.
  bool made_all_ = false;
  int beginnings_ = 0;
  absl::Status outcome_ = absl::OkStatus();  // Once taken back.
  size_t first_ = 0;                         // The place of its answers in the round.
  size_t asked_ = 0;
  bool done_ = false;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_TRY_H_
