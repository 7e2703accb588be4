#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_SESSION_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_SESSION_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "session_proof.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_session.h"
#include "zookeeper/zookeeper.h"

namespace stockade::locks_internal {

// All that is the same for the sessions of one service.
struct ZooKeeperSessionOptions {
  std::string servers = {};      // "host:port,host:port"
  std::string credentials = {};  // "user:password"; empty: none.
  std::string root = {};         // "/stockade/locks"
  bool creator_only = false;     // Only clients with the same credentials may access the nodes.
  absl::Duration timeout = absl::ZeroDuration();
  absl::Duration tick = absl::ZeroDuration();
  double clock_drift = 0;
  Clock* clock = nullptr;
};

// What ZooKeeper said to one request.
struct ZooKeeperAnswer {
  int code = ZOK;  // ZNONODE; ZCONNECTIONLOSS where it is not known whether it was run.
  std::string path = {};
  int64_t czxid = 0;
  std::vector<std::string> children = {};
};

// After so long without an answer: ZooKeeperSession::Nudge().
inline constexpr absl::Duration kPatienceWithServer = absl::Milliseconds(500);

// Whether the answer leaves open what became of the request.
bool IsUnanswered(int code);
// Unavailable, PermissionDenied, Internal: "getting /a/b: connection loss".
absl::Status ZooKeeperError(std::string_view doing, int code);

// One session, over one handle of the C client. The client's callbacks use it until Close() has returned, so its owner
// keeps it until then. Thread-safe. Requests do not block: each is answered once, on a thread of the client, on the
// thread that closes the session, or within the call. The requests of one thread are run in their order, and a read
// sees the effects of the requests before it. Answers and listeners must not block, and are called without mutexes.
class ZooKeeperSession {
 public:
  using Answered = std::function<void(ZooKeeperAnswer answer)>;
  enum class Event { kConnected, kDisconnected, kOver };
  using Listener = std::function<void(Event event)>;

  ZooKeeperSession(const ZooKeeperSessionOptions& options, Listener on_event);
  ~ZooKeeperSession();
  ZooKeeperSession(const ZooKeeperSession&) = delete;
  ZooKeeperSession& operator=(const ZooKeeperSession&) = delete;

  // Begins to connect. Once. Unavailable, ResourceExhausted: not even that could be done.
  absl::Status Open();
  // Ends the session, at the servers too where they are connected; what has not been answered is, with ZCLOSING. Blocks
  // for some seconds at most. By one thread, not by one of the client's.
  void Close();

  // Whether it is connected to a server, even if the server has not answered yet.
  bool HasSocket() const;
  // After the first kConnected: until when what was made in it is there; and its time-out as the servers bound it.
  std::shared_ptr<const LockSession> lease() const;
  absl::Duration timeout() const;

  // path: of the new node; a sequential one's is longer than what was asked for. czxid.
  void Create(const std::string& path, int mode, Answered answered);
  // An ephemeral node, if `beside` exists.
  void CreateBeside(const std::string& path, const std::string& beside, Answered answered);
  void Delete(const std::string& path, Answered answered);
  void Exists(const std::string& path, Answered answered);  // czxid
  void Read(const std::string& path, Answered answered);    // Whether it may be read.
  void Children(const std::string& path, Answered answered);
  // Requests that follow it see everything that any client had been answered before it.
  void Sync(Answered answered);
  // As Sync(), but by way of a majority, so it does not rely on a server that only claims to lead; and all requests of
  // this session before it are decided. If the session has moved to another server, a request that the old server
  // received and lost is refused later.
  void Barrier(Answered answered);
  // Asks for nothing, so that the server goes on with what it has. One of three 3.8 servers was seen to sleep on a
  // transaction that was committed (CommitProcessor), a few times in 100,000, until whatever request came next.
  void Nudge() {
    Sync([](const ZooKeeperAnswer&) {});
  }
  // Calls `gone` once when the node is deleted, or at once if it does not exist. Each node has one watch, which many
  // may share. A watch survives a lost connection, unless its request had not been answered by then: in that case the
  // waiters ask again.
  using Gone = std::function<void()>;
  void WatchGone(const std::string& path, const std::weak_ptr<Gone>& gone);

 private:
  struct Call;
  using Waiting = std::vector<std::weak_ptr<Gone>>;

  // `send` hands the call to the client, and returns what that returned.
  template <typename Send>
  void Ask(Answered answered, bool transaction, Send send);
  void Complete(Call& call, ZooKeeperAnswer answer);
  void Connected(zhandle_t* handle);
  void Ended();
  void Extend(Instant since) STOCKADE_REQUIRES(mutex_);
  void Unwatch(const std::string& path, const std::weak_ptr<Gone>& gone) STOCKADE_REQUIRES(mutex_);
  void Fire(const std::string& path) STOCKADE_EXCLUDES(mutex_);
  const ACL_vector* Acl() const { return options_.creator_only ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE; }

  static void OnEvent(zhandle_t* handle, int type, int state, const char* path, void* context);
  static void OnNodeEvent(zhandle_t* handle, int type, int state, const char* path, void* context);
  static void OnVoid(int code, const void* data);
  static void OnBarrier(int code, const void* data);
  static void OnString(int code, const char* value, const void* data);
  static void OnCreated(int code, const char* path, const Stat* stat, const void* data);
  static void OnStat(int code, const Stat* stat, const void* data);
  static void OnData(int code, const char* value, int size, const Stat* stat, const void* data);
  static void OnChildren(int code, const String_vector* children, const void* data);

  const ZooKeeperSessionOptions options_;
  const Listener on_event_;

  mutable Mutex mutex_;
  zhandle_t* handle_ STOCKADE_GUARDED_BY(mutex_) = nullptr;  // Null: not open any more, or not yet.
  Instant opened_at_ STOCKADE_GUARDED_BY(mutex_);
  absl::Duration timeout_ STOCKADE_GUARDED_BY(mutex_);                        // As bound by the servers.
  std::shared_ptr<LockSession> lease_ STOCKADE_GUARDED_BY(mutex_) = nullptr;  // Null: has never been connected.
  SessionProof proof_ STOCKADE_GUARDED_BY(mutex_);
  // The calls that the client was given and has not answered. It forgets some of them when it is closed.
  std::list<Call> calls_ STOCKADE_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Waiting> watched_ STOCKADE_GUARDED_BY(mutex_);  // By path.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_SESSION_H_
