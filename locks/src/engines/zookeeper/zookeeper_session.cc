#include "zookeeper_session.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/log.h"
#include "stockade/base/process_name.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

// Clocks that count in milliseconds, ours and the servers'.
constexpr absl::Duration kClockGrain = absl::Milliseconds(2);

// The client warns several times for each of the attempts to connect, which are some a second.
constexpr absl::Duration kClientLogPause = absl::Seconds(10);

// The client's own level is one for the whole process, and not ours to set; nor does it say which session a line is of.
void LogClientLine(const char* line) {
  const std::string_view text = line;
  if (text.find(":ZOO_ERROR@") == std::string_view::npos && text.find(":ZOO_WARN@") == std::string_view::npos) return;
  static Mutex mutex;
  static Instant next STOCKADE_GUARDED_BY(mutex) = Instant::InfinitePast();
  static int left_out STOCKADE_GUARDED_BY(mutex) = 0;
  int before = 0;
  {
    const MutexLock lock(mutex);
    const Instant now = Clock::System()->Now();
    if (now < next) {
      ++left_out;
      return;
    }
    next = now + kClientLogPause;
    before = std::exchange(left_out, 0);
  }
  const size_t at = text.find(": ");
  Log(LogSeverity::kWarning, Concat("ZooKeeper client: ", at == std::string_view::npos ? text : text.substr(at + 2),
                                    before > 0 ? Concat(" (", before, " lines before it were dropped)") : ""));
}

}  // namespace

bool IsUnanswered(int code) {
  return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == ZCLOSING || code == ZSESSIONMOVED ||
         code == ZSYSTEMERROR || code == ZMARSHALLINGERROR;
}

absl::Status ZooKeeperError(std::string_view doing, int code) {
  const std::string text = Concat(doing, ": ", zerror(code));
  switch (code) {
    case ZOK: return absl::OkStatus();
    case ZNOAUTH:
    case ZAUTHFAILED:
    case ZINVALIDACL: return absl::PermissionDeniedError(text);
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE:
    case ZTHROTTLEDOP: return absl::UnavailableError(text);
    default: break;
  }
  if (!IsUnanswered(code)) return absl::InternalError(text);
  // The client does not say why it has no connection.
  if (OutOfDescriptors()) return absl::ResourceExhaustedError(Concat(text, ": no file descriptor is left"));
  return absl::UnavailableError(text);
}

namespace {

// The names of a reply; nothing if it lacks some. The client passes on what a server has sent, null strings included,
// and a count of names that the reply may not have.
std::optional<std::vector<std::string>> NamesOf(const String_vector* names) {
  if (names == nullptr || names->count < 0 || (names->count > 0 && names->data == nullptr)) return std::nullopt;
  std::vector<std::string> taken;
  for (int32_t n = 0; n < names->count; ++n) {
    if (names->data[n] == nullptr) return std::nullopt;
    taken.emplace_back(names->data[n]);
  }
  return taken;
}

}  // namespace

struct ZooKeeperSession::Call {
  ZooKeeperSession* session;
  Answered answered;
  bool transaction;
  Instant sent;
  std::list<Call>::iterator self = {};
  zoo_op_result_t results[2] = {};
  char path_buffer[1] = {};
};

ZooKeeperSession::ZooKeeperSession(const ZooKeeperSessionOptions& options, Listener on_event)
    : options_(options), on_event_(std::move(on_event)), proof_(options.tick) {}

ZooKeeperSession::~ZooKeeperSession() {
  if (handle_ != nullptr) Fatal("a ZooKeeper session is destroyed before it is closed");
}

absl::Status ZooKeeperSession::Open() {
  // The client aborts the process if it cannot start its two threads.
  if (absl::Status threads = TryThreads(2); !threads.ok()) {
    return absl::Status(threads.code(),
                        Concat("cannot begin to connect to ", options_.servers, ": ", threads.message()));
  }
  // The client's callbacks may come before it has returned, and wait here.
  const MutexLock lock(mutex_);
  opened_at_ = options_.clock->Now();
  handle_ =
      zookeeper_init2(options_.servers.c_str(), &OnEvent, static_cast<int>(absl::ToInt64Milliseconds(options_.timeout)),
                      nullptr, this, ZOO_NO_LOG_CLIENTENV, &LogClientLine);
  if (handle_ == nullptr) {
    return absl::UnavailableError(Concat("cannot begin to connect to ", options_.servers, ": ", std::strerror(errno)));
  }
  if (options_.credentials.empty()) return absl::OkStatus();
  // Goes first whenever it connects. The servers take any digest: a wrong one shows at the nodes.
  const int code = zoo_add_auth(handle_, "digest", options_.credentials.data(),
                                static_cast<int>(options_.credentials.size()), nullptr, nullptr);
  return ZooKeeperError("authenticating", code);
}

bool ZooKeeperSession::HasSocket() const {
  const MutexLock lock(mutex_);
  if (handle_ == nullptr) return false;
  const int state = zoo_state(handle_);
  return state == ZOO_ASSOCIATING_STATE || state == ZOO_CONNECTED_STATE;
}

void ZooKeeperSession::Close() {
  zhandle_t* handle = nullptr;
  {
    const MutexLock lock(mutex_);
    if (lease_ != nullptr) lease_->End();
    handle = std::exchange(handle_, nullptr);
  }
  if (handle == nullptr) return;
  zookeeper_close(handle);
  // Nothing calls from here on. What it has forgotten:
  for (;;) {
    Call* call = nullptr;
    {
      const MutexLock lock(mutex_);
      if (calls_.empty()) break;
      call = &calls_.front();
    }
    Complete(*call, {.code = ZCLOSING});
  }
  const MutexLock lock(mutex_);
  watched_.clear();
}

absl::Duration ZooKeeperSession::timeout() const {
  const MutexLock lock(mutex_);
  return timeout_;
}

std::shared_ptr<const LockSession> ZooKeeperSession::lease() const {
  const MutexLock lock(mutex_);
  return lease_;
}

template <typename Send>
void ZooKeeperSession::Ask(Answered answered, bool transaction, Send send) {
  int code = ZCLOSING;
  {
    const MutexLock lock(mutex_);
    if (handle_ != nullptr) {
      Call& call = calls_.emplace_back(Call{
          .session = this, .answered = std::move(answered), .transaction = transaction, .sent = options_.clock->Now()});
      call.self = std::prev(calls_.end());
      code = send(handle_, call);
      if (code == ZOK) return;  // Maybe answered already, by a thread that waits for mutex_.
      answered = std::move(call.answered);
      calls_.pop_back();
    }
  }
  answered({.code = code});
}

void ZooKeeperSession::Complete(Call& call, ZooKeeperAnswer answer) {
  const Answered answered = std::move(call.answered);
  {
    const MutexLock lock(mutex_);
    if (call.transaction && answer.code == ZOK) {
      if (const std::optional<Instant> proven = proof_.Committed(call.sent, options_.clock->Now())) Extend(*proven);
    }
    calls_.erase(call.self);
  }
  answered(std::move(answer));
}

void ZooKeeperSession::Extend(Instant since) {
  lease_->Extend(since + timeout_ * (1 - options_.clock_drift) - kClockGrain, options_.clock->Now());
}

void ZooKeeperSession::Connected(zhandle_t* handle) {
  const absl::Duration timeout = absl::Milliseconds(zoo_recv_timeout(handle));
  absl::Duration first = timeout;
  bool is_new = false;
  {
    const MutexLock lock(mutex_);
    is_new = lease_ == nullptr;
    if (is_new) {
      timeout_ = timeout;
      // It was made by a transaction, after that.
      lease_ = std::make_shared<LockSession>(opened_at_ + timeout_ * (1 - options_.clock_drift) - kClockGrain);
    }
    first = timeout_;
  }
  if (timeout < first) {
    // From here on the servers count the shorter time-out, and holders may rely on the longer one.
    Log(LogSeverity::kWarning,
        Concat("ZooKeeper: a server of ", options_.servers, " keeps the session for ", absl::FormatDuration(timeout),
               ", the previous one for ", absl::FormatDuration(first), ": it is given up"));
    return Ended();
  }
  if (is_new) {  // Clients have no names there: this is what `cons` and the servers' logs have.
    Log(LogSeverity::kInfo, absl::StrFormat("ZooKeeper: %s is session 0x%x at %s", base_internal::ProcessName(),
                                            zoo_client_id(handle)->client_id, options_.servers));
  }
  on_event_(Event::kConnected);
}

void ZooKeeperSession::Ended() {
  {
    const MutexLock lock(mutex_);
    if (lease_ != nullptr) lease_->End();
  }
  on_event_(Event::kOver);
}

void ZooKeeperSession::Create(const std::string& path, int mode, Answered answered) {
  Ask(std::move(answered), true, [&](zhandle_t* handle, Call& call) {
    return zoo_acreate2(handle, path.c_str(), "", 0, Acl(), mode, &OnCreated, &call);
  });
}

void ZooKeeperSession::CreateBeside(const std::string& path, const std::string& beside, Answered answered) {
  Ask(std::move(answered), true, [&](zhandle_t* handle, Call& call) {
    zoo_op_t ops[2] = {};
    zoo_check_op_init(&ops[0], beside.c_str(), -1);
    zoo_create_op_init(&ops[1], path.c_str(), "", 0, Acl(), ZOO_EPHEMERAL, call.path_buffer, sizeof(call.path_buffer));
    return zoo_amulti(handle, 2, ops, call.results, &OnVoid, &call);
  });
}

void ZooKeeperSession::Delete(const std::string& path, Answered answered) {
  Ask(std::move(answered), true,
      [&](zhandle_t* handle, Call& call) { return zoo_adelete(handle, path.c_str(), -1, &OnVoid, &call); });
}

void ZooKeeperSession::Exists(const std::string& path, Answered answered) {
  Ask(std::move(answered), false,
      [&](zhandle_t* handle, Call& call) { return zoo_aexists(handle, path.c_str(), 0, &OnStat, &call); });
}

void ZooKeeperSession::Read(const std::string& path, Answered answered) {
  Ask(std::move(answered), false,
      [&](zhandle_t* handle, Call& call) { return zoo_aget(handle, path.c_str(), 0, &OnData, &call); });
}

void ZooKeeperSession::Children(const std::string& path, Answered answered) {
  Ask(std::move(answered), false,
      [&](zhandle_t* handle, Call& call) { return zoo_aget_children(handle, path.c_str(), 0, &OnChildren, &call); });
}

void ZooKeeperSession::Sync(Answered answered) {
  Ask(std::move(answered), false,
      [&](zhandle_t* handle, Call& call) { return zoo_async(handle, options_.root.c_str(), &OnString, &call); });
}

void ZooKeeperSession::Barrier(Answered answered) {
  // A multi-operation is a transaction though it changes nothing, and one that fails too (PrepRequestProcessor): where
  // the root is gone, or may not be read, it has still gone its way.
  Ask(std::move(answered), true, [&](zhandle_t* handle, Call& call) {
    zoo_op_t check = {};
    zoo_check_op_init(&check, options_.root.c_str(), -1);
    return zoo_amulti(handle, 1, &check, call.results, &OnBarrier, &call);
  });
}

void ZooKeeperSession::WatchGone(const std::string& path, const std::weak_ptr<Gone>& gone) {
  {
    const MutexLock lock(mutex_);
    Unwatch(path, gone);
    watched_[path].push_back(gone);
  }
  // Watches by a read: a watch by exists would stay for ever on a node that is gone already. After any other failure
  // the waiters ask again, once the session is connected again.
  Ask(
      [this, path, gone](const ZooKeeperAnswer& answer) {
        if (answer.code == ZNONODE) return Fire(path);
        if (answer.code == ZOK) return;
        const MutexLock lock(mutex_);
        Unwatch(path, gone);
      },
      false,
      [&](zhandle_t* handle, Call& call) {
        return zoo_awget(handle, path.c_str(), &OnNodeEvent, nullptr, &OnData, &call);
      });
}

void ZooKeeperSession::Unwatch(const std::string& path, const std::weak_ptr<Gone>& gone) {
  const auto found = watched_.find(path);
  if (found == watched_.end()) return;
  std::erase_if(found->second, [&gone](const std::weak_ptr<Gone>& other) {
    const bool same = !other.owner_before(gone) && !gone.owner_before(other);
    return same || other.expired();
  });
  if (found->second.empty()) watched_.erase(found);
}

void ZooKeeperSession::Fire(const std::string& path) {
  Waiting told;
  {
    const MutexLock lock(mutex_);
    const auto found = watched_.find(path);
    if (found == watched_.end()) return;
    told = std::move(found->second);
    watched_.erase(found);
  }
  for (const std::weak_ptr<Gone>& waiting : told) {
    if (const std::shared_ptr<Gone> gone = waiting.lock()) (*gone)();
  }
}

void ZooKeeperSession::OnEvent(zhandle_t* handle, int type, int state, const char*, void* context) {
  if (type != ZOO_SESSION_EVENT) return;
  auto* const self = static_cast<ZooKeeperSession*>(context);
  if (state == ZOO_CONNECTED_STATE) {
    self->Connected(handle);
  } else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
    self->Ended();
  } else {
    self->on_event_(Event::kDisconnected);
  }
}

void ZooKeeperSession::OnNodeEvent(zhandle_t* handle, int type, int, const char* path, void*) {
  if (type == ZOO_SESSION_EVENT) return;  // All watches hear of those too.
  if (path == nullptr) return;
  // The same for all nodes, so the client has one watch for all who wait for one.
  static_cast<ZooKeeperSession*>(const_cast<void*>(zoo_get_context(handle)))->Fire(path);
}

void ZooKeeperSession::OnVoid(int code, const void* data) {
  Call& call = *static_cast<Call*>(const_cast<void*>(data));
  call.session->Complete(call, {.code = code});
}

void ZooKeeperSession::OnBarrier(int code, const void* data) {
  OnVoid(code == ZNONODE || code == ZNOAUTH ? static_cast<int>(ZOK) : code, data);
}

void ZooKeeperSession::OnString(int code, const char*, const void* data) { OnVoid(code, data); }

void ZooKeeperSession::OnCreated(int code, const char* path, const Stat* stat, const void* data) {
  Call& call = *static_cast<Call*>(const_cast<void*>(data));
  ZooKeeperAnswer answer = {.code = code};
  if (code == ZOK && (path == nullptr || stat == nullptr)) {
    answer.code = ZMARSHALLINGERROR;
  } else if (code == ZOK) {
    answer.path = path;
    answer.czxid = stat->czxid;
  }
  call.session->Complete(call, std::move(answer));
}

void ZooKeeperSession::OnStat(int code, const Stat* stat, const void* data) {
  Call& call = *static_cast<Call*>(const_cast<void*>(data));
  if (code == ZOK && stat == nullptr) code = ZMARSHALLINGERROR;
  call.session->Complete(call, {.code = code, .czxid = code == ZOK ? stat->czxid : 0});
}

void ZooKeeperSession::OnData(int code, const char*, int, const Stat*, const void* data) { OnVoid(code, data); }

void ZooKeeperSession::OnChildren(int code, const String_vector* children, const void* data) {
  Call& call = *static_cast<Call*>(const_cast<void*>(data));
  ZooKeeperAnswer answer = {.code = code};
  if (code == ZOK) {
    if (std::optional<std::vector<std::string>> names = NamesOf(children)) {
      answer.children = *std::move(names);
    } else {
      answer.code = ZMARSHALLINGERROR;
    }
  }
  call.session->Complete(call, std::move(answer));
}

}  // namespace stockade::locks_internal
