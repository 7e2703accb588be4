#ifndef STOCKADE_REDIS_PIPELINE_H_
#define STOCKADE_REDIS_PIPELINE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "link.h"
#include "stockade/base/backoff.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/timer_queue.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/redis/redis_reply.h"

namespace stockade::redis_internal {

// A command on its way.
struct Request {
  std::string wire;
  int replies = 1;  // That it will have; the last one is its own. (ASKING goes before a redirected command.)
  std::optional<std::string> on_server = {};  // The run id of the only server that may get it.
  // MULTI, commands, EXEC. Its result is an array of all replies. Is sent only after a proof: an empty transaction that
  // has succeeded on the same connection. Otherwise a refused MULTI would have the commands run one by one.
  enum class Kind : uint8_t { kCommand, kTransaction, kProof } kind = Kind::kCommand;
  std::vector<RedisReply> parts = {};  // The pipeline's: of a transaction, the replies so far.
  absl::StatusOr<RedisReply> result;   // Unknown until the reply comes.
  uint64_t place = 0;                  // The pipeline's: its number in the order of sending.
};

// Is called once, on whatever thread, with no lock held; must be short and must not block.
using ReplyCallback = absl::AnyInvocable<void(absl::StatusOr<RedisReply>)>;

struct AsyncRequest : Request {
  Instant deadline;
  ReplyCallback done;
};

// Makes a connection, until `deadline` at the latest. Runs on the pipeline's own thread.
using LinkMaker = std::function<absl::StatusOr<std::unique_ptr<Link>>(Instant deadline)>;

struct PipelineOptions {
  std::string name;  // For messages.
  absl::Duration connect_timeout;
  absl::Duration min_backoff;
  absl::Duration max_backoff;
  size_t max_pending_commands;
  size_t max_unsent_bytes;
  // A connection is closed if the reply that is due next is that of a command which was given up, and no reply has come
  // for so long.
  absl::Duration max_silence = absl::InfiniteDuration();
};

// The commands of all threads over one connection. Replies are matched by their order, and the connection is made again
// when it breaks.
//
// There are two roles, and at most one thread at a time has each:
//  - The sender puts the gathered commands onto the socket. A thread that adds a command and finds no sender becomes
//    the sender, so a command leaves on its caller's thread. The number of unanswered flushes is bounded; further
//    commands gather until a reply comes, and leave together. With few callers, none waits for another; with many, they
//    share system calls: the sender first yields, so that the callers that are ready to run add their commands.
//  - The driver receives, and hands each reply to its request. A thread that waits and finds no driver becomes the
//    driver. It leaves with its own reply, and hands the role to the waiter that came last, which will stay longest. So
//    a lone caller sends and receives on its own thread. The background thread drives only for commands whose callers
//    do not wait. Otherwise it sleeps until the server closes the connection, and makes the next one. It also continues
//    a send for which the socket had no room: it can be woken, while a driver that sleeps on the socket cannot.
//
// Invariants (mutex_ also guards waiters, entries and sessions; only the holder of a role uses the state of that role):
//  - pending_ is in the order of sending. The commands before session_->sent were handed to the sender, and the server
//    answers in that order. Without a session nothing in pending_ has been sent.
//  - With a session and live requests there is a driver, or a waiter that is on its way to take the role.
//  - A command is put onto at most one connection. When a connection is lost, the commands sent on it are answered
//    "unknown outcome", and the others stay for the next one.
//  - While no reply is due, nothing may arrive. If something has arrived then, the connection is closed before the next
//    command is put onto it, because each later command would get the reply of the one before.
//  - A request that is bound to a server, or is a transaction, is checked against the session when it is appended, or
//    else when the next session begins. So what is unsent during a session may be sent on it.
//  - A request that was given up after it was sent keeps its place, so that its reply is matched with it and dropped.
//
// Thread-safe. Call Stop() before the last reference goes.
class Pipeline : public std::enable_shared_from_this<Pipeline> {
 public:
  // `timers` and `metrics` must outlive it. Starts its thread, which connects. ResourceExhausted: the system gives no
  // thread or no file descriptor for it.
  static absl::StatusOr<std::shared_ptr<Pipeline>> Start(LinkMaker make_link, const PipelineOptions& options,
                                                         TimerQueue* timers, ComponentMetrics* metrics);
  ~Pipeline();

  // Sends all in one go and blocks until each has its result, or until `deadline`.
  void Run(std::span<Request> requests, Instant deadline);
  // Never blocks for the network. May call back within the call. `timers` have been started.
  void RunAsync(std::unique_ptr<AsyncRequest> request);

  // Blocks until the first attempt to connect has ended. OK where it is connected, else why it is not.
  absl::Status AwaitFirstAttempt();
  // The server that commands are sent to. Blocks until there is a connection, or until `deadline`: then Unavailable, or
  // Unauthenticated, PermissionDenied or InvalidArgument if it was refused, with the reason. Retire()'s or Stop()'s
  // status once they were called.
  absl::StatusOr<RedisServerIdentity> AwaitServer(Instant deadline);
  // Ends the connection, unless it is to `unless_to`, as if the server had done so, and makes the next one.
  void Drop(const absl::Status& why, const RedisEndpoint* unless_to = nullptr);

  // If it is not connected, connects now instead of waiting for the end of the pause: there is reason to expect
  // success.
  void ConnectNow();

  // For a server that is not to be used any more: what has not been sent, and all that comes, gets `why`; what was sent
  // may still be answered, until Stop(). Connects no more. Does not block.
  void Retire(const absl::Status& why);
  // Answers what is pending, and all that comes, with Cancelled, or what Retire() was given. Blocks until the thread
  // has ended. Not on a callback.
  void Stop();

  size_t pending() const;
  bool connected() const;

 private:
  // A futex that the waiters of kSize successive commands share, each with its own bit. One system call wakes all of
  // them whose replies have arrived, and no others.
  struct alignas(64) WakeGroup {
    static constexpr size_t kSize = 32;
    std::atomic<uint32_t> wakes{0};  // How often waiters were woken.
  };
  struct Wake {
    WakeGroup* group;
    uint32_t bits;
  };
  // A thread that waits for `left` results. `word` tells what it does or is to do; mutex_ is held for all steps except
  // that from kAwake to kAsleep.
  struct Waiter {
    enum Word : uint32_t { kAwake, kAsleep, kDrives, kDone };
    std::atomic<uint32_t> word{kAwake};
    size_t left = 0;
    Wake wake = {};          // What wakes it: the bit of its last command.
    bool may_drive = false;  // Also once it is done, which then was not by its own driving: it has to hand the role on.
    bool in_crowd = false;
  };
  struct Entry {
    Request* request;  // Null: was given up.
    Waiter* waiter;    // Null: an AsyncRequest, owned.
    int replies;       // That have yet to come; 0: given up before it was sent.
    Instant since;
    bool transaction;
    bool in_multi = false;  // The server has accepted a part of the transaction.
  };
  struct Session {
    std::unique_ptr<Link> link;
    uint64_t sent = 0;             // Places below it were handed to the sender.
    Instant answered_at;           // When the last reply came, or the connection was made.
    std::deque<uint64_t> flushes;  // Where each flush with unanswered commands ended.
    Waiter* driver = nullptr;
    size_t flushed_callers = 0;      // callers_ at the last flush.
    bool sending = false;            // Somebody is the sender, or
    bool blocked = false;            // the socket was full: the background thread goes on when it is not.
    bool hung_up = false;            // The server has ended it: what it had sent may still be there.
    bool runs_transactions = false;  // A proof, or another transaction, has succeeded.
    std::string out;  // The sender's: what is being sent, from out_begin on. Empty: it has yet to gather.
    size_t out_begin = 0;
    std::vector<RedisReply> replies;  // The driver's.
  };
  // The work that is done after the mutex is released.
  struct AfterUnlock {
    absl::InlinedVector<Wake, 4> wakes;
    std::vector<std::unique_ptr<AsyncRequest>> done;
    bool wake_background = false;
  };

  // So many waiting callers are a crowd, and so many live requests for the number of flushes. Then throughput depends
  // on how much each system call and each thread switch achieves.
  static constexpr size_t kCrowd = 16;
  // Unanswered flushes beyond which commands gather, without a crowd and with one.
  static constexpr size_t kMaxFlushes = 8;
  static constexpr size_t kMaxFlushesInCrowd = 2;
  // Times that a waiter in a crowd lets others run before it sleeps. The reply is often there by then, and to fall
  // asleep and be woken costs several times as much.
  static constexpr int kYieldsInCrowd = 3;
  // After which a sender goes back to its caller.
  static constexpr int kMaxFlushesInARow = 8;
  static constexpr size_t kMaxFlushBytes = size_t{256} << 10;

  Pipeline(LinkMaker make_link, const PipelineOptions& options, TimerQueue* timers, ComponentMetrics* metrics,
           EventFd wake_background);

  bool Wait(Waiter& waiter, Instant deadline) STOCKADE_EXCLUDES(mutex_);  // False: not in time.
  void AbandonRequests(Waiter& waiter, std::span<Request> requests) STOCKADE_EXCLUDES(mutex_);
  void Drive(Waiter& self, Instant deadline) STOCKADE_EXCLUDES(mutex_);
  bool ReceiveReplies(const std::shared_ptr<Session>& session, Waiter& self) STOCKADE_EXCLUDES(mutex_);
  void Send(const std::shared_ptr<Session>& session) STOCKADE_EXCLUDES(mutex_);
  void Lose(const std::shared_ptr<Session>& session, const absl::Status& why) STOCKADE_EXCLUDES(mutex_);
  void Unblock(const std::shared_ptr<Session>& session) STOCKADE_EXCLUDES(mutex_);
  void ExpireAsync() STOCKADE_EXCLUDES(mutex_);
  void EndSilence() STOCKADE_EXCLUDES(mutex_);
  void RunAfterUnlock(AfterUnlock& after_unlock) STOCKADE_EXCLUDES(mutex_);

  // The background thread's.
  void Background();
  void Reconnect();
  bool Pause(Instant until);  // False: retired or stopping.
  // Sleeps until there is something to do for the session, and does it.
  void Attend(const std::shared_ptr<Session>& session);

  absl::Status Admit(size_t commands, size_t bytes) const STOCKADE_REQUIRES(mutex_);
  // Not OK: `request` is bound to another server than `link`'s.
  absl::Status CheckServer(const Request& request, const Link& link) const;
  // Not OK: `request` must not be sent on session_.
  absl::Status CheckSession(const Request& request) const STOCKADE_REQUIRES(mutex_);
  // For a session that begins on `link`.
  void RefuseWhatMustNotBeSent(const Link& link, AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  void EndUnsent(const absl::Status& why, AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  void Append(Request& request, Waiter* waiter, Instant now) STOCKADE_REQUIRES(mutex_);
  // True: the caller is the sender, and calls Send(). In a crowd, Send() gathers the commands.
  bool GatherIfMaySend(AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  // The sender's. False: there is nothing to send, and the caller is no longer the sender.
  bool Gather(AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  // The same, after other threads could add their commands.
  bool GatherFromCrowd(const std::shared_ptr<Session>& session) STOCKADE_EXCLUDES(mutex_);
  // The callers of one flush get their replies, and call again, together. So the first one of them already counts as
  // part of the crowd.
  bool InCrowd() const STOCKADE_REQUIRES(mutex_) {
    return session_ != nullptr && std::max(callers_, session_->flushed_callers) >= kCrowd;
  }
  bool AwaitsReplies() const STOCKADE_REQUIRES(mutex_);  // The server, over session_.
  void Deliver(Entry& entry, absl::StatusOr<RedisReply> result, AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  absl::Status DeliverReplies(Session& session, AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  // Takes EXEC's reply, and makes it the array of all. Not OK: the connection may still be within the transaction.
  absl::Status FinishTransaction(Entry& entry, RedisReply& exec, Session& session) STOCKADE_REQUIRES(mutex_);
  void Abandon(uint64_t place) STOCKADE_REQUIRES(mutex_);
  void DropGivenUp() STOCKADE_REQUIRES(mutex_);
  void LoseLocked(const absl::Status& why, AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  static void SetWord(Waiter& waiter, Waiter::Word word, AfterUnlock& after_unlock);
  void AppointDriver(AfterUnlock& after_unlock) STOCKADE_REQUIRES(mutex_);
  void ArmTimer(Instant deadline) STOCKADE_REQUIRES(mutex_);
  // Has EndSilence() called when the server may be silent for no longer; InfiniteFuture() while nothing is overdue.
  void WatchSilence() STOCKADE_REQUIRES(mutex_);
  Instant SilenceEnds() const STOCKADE_REQUIRES(mutex_);
  absl::Status NotInTime(uint64_t place) const STOCKADE_REQUIRES(mutex_);
  bool Sent(uint64_t place) const STOCKADE_REQUIRES(mutex_) { return session_ != nullptr && place < session_->sent; }

  const LinkMaker make_link_;
  const PipelineOptions options_;
  TimerQueue* const timers_;
  ComponentMetrics* const metrics_;
  const EventFd wake_background_;
  Waiter background_;  // Stands for the background thread where that is the driver.
  Backoff backoff_;    // This and the next are the background thread's.
  Instant tried_at_ = Instant::InfinitePast();

  std::array<WakeGroup, 32> wake_groups_;  // By place. Waiters with the same bit may wake spuriously.

  mutable Mutex mutex_;
  CondVar attempted_;
  std::shared_ptr<Session> session_ STOCKADE_GUARDED_BY(mutex_);  // Null: not connected. Replaced, never mended.
  std::deque<Entry> pending_ STOCKADE_GUARDED_BY(mutex_);
  uint64_t first_place_ STOCKADE_GUARDED_BY(mutex_) = 0;  // Of pending_.front().
  size_t live_ STOCKADE_GUARDED_BY(mutex_) = 0;           // Entries with a request.
  size_t live_async_ STOCKADE_GUARDED_BY(mutex_) = 0;     // Of those, without a waiter.
  size_t callers_ STOCKADE_GUARDED_BY(mutex_) = 0;        // Waiters with live requests.
  size_t unsent_bytes_ STOCKADE_GUARDED_BY(mutex_) = 0;
  bool attempted_once_ STOCKADE_GUARDED_BY(mutex_) = false;
  // Why it is not connected.
  absl::Status last_error_ STOCKADE_GUARDED_BY(mutex_) = absl::UnavailableError("still connecting");
  Instant timer_at_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
  bool watches_silence_ STOCKADE_GUARDED_BY(mutex_) = false;  // A timer will call EndSilence().
  absl::Status end_ STOCKADE_GUARDED_BY(mutex_);              // Not OK: retired or stopping, and what comes gets this.
  bool connect_now_ STOCKADE_GUARDED_BY(mutex_) = false;      // The next pause does not happen.
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Started by Start().
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_PIPELINE_H_
