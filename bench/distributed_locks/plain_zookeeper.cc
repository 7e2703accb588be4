#include "distributed_locks/plain_zookeeper.h"

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <vector>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr int kSessionTimeoutMs = 30'000;
constexpr std::string_view kNodePrefix = "/n-";
constexpr int kMostPath = 256;

// Waited for once, told once, by another thread.
class Event {
 public:
  void Tell() {
    std::lock_guard<std::mutex> lock(mutex_);  // To the end: it may be gone as soon as the waiter knows.
    told_ = true;
    condition_.notify_one();
  }
  void Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [&] { return told_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool told_ = false;
};

void Check(int code, std::string_view what) {
  if (code != ZOK) base_internal::Fatal(base_internal::Concat("bench: ZooKeeper: ", what, ": ", zerror(code)));
}

// All names have one prefix, so that their order is that of the numbers behind it.
std::string LargestBelow(const String_vector& names, std::string_view name) {
  std::string_view before;
  for (int i = 0; i < names.count; ++i) {
    const std::string_view other = names.data[i];
    if (other < name && other > before) before = other;
  }
  return std::string(before);
}

// What the calls that are on their way together leave.
struct Entry {
  std::string node = {};
  std::string before = {};
  Event answered = {};
};

void OnCreated(int code, const char* node, const Stat*, const void* entry) {
  Check(code, "create");
  static_cast<Entry*>(const_cast<void*>(entry))->node = node;
}

void OnNames(int code, const String_vector* names, const Stat*, const void* data) {
  Check(code, "get children");
  Entry& entry = *static_cast<Entry*>(const_cast<void*>(data));
  const std::string_view node = entry.node;
  entry.before = LargestBelow(*names, node.substr(node.rfind('/') + 1));
  entry.answered.Tell();
}

void OnSession(zhandle_t*, int, int state, const char*, void* connected) {
  if (state == ZOO_CONNECTED_STATE) static_cast<Event*>(connected)->Tell();
}

void OnEnd(zhandle_t*, int type, int, const char*, void* ended) {
  if (type != ZOO_DELETED_EVENT) base_internal::Fatal("bench: ZooKeeper: the connection is lost");
  static_cast<Event*>(ended)->Tell();
}

}  // namespace

PlainZooKeeper::PlainZooKeeper(const std::string& server, Calls calls)
    : calls_(calls), handle_([&] {
        Event connected;
        Handle handle(zookeeper_init2(server.c_str(), &OnSession, kSessionTimeoutMs, nullptr, &connected,
                                      ZOO_NO_LOG_CLIENTENV, [](const char*) {}),
                      &zookeeper_close);
        if (handle == nullptr) base_internal::Fatal("bench: ZooKeeper: no handle");
        connected.Await();
        zoo_set_watcher(handle.get(), nullptr);
        return handle;
      }()) {}

Throughput PlainZooKeeper::Run(Worker& worker, bool own_names, absl::Duration span) {
  const std::string folder = own_names ? "/plain" + std::to_string(worker.thread()) : "/plain";
  Make(folder);
  return worker.RunFor(span, 1, [&](size_t, int64_t) { Release(Acquire(folder)); });
}

void PlainZooKeeper::Make(const std::string& folder) {
  const int code = zoo_create(handle_.get(), folder.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, nullptr, 0);
  if (code != ZNODEEXISTS) Check(code, folder);
}

std::string PlainZooKeeper::Acquire(const std::string& folder) {
  const std::string prefix = base_internal::Concat(folder, kNodePrefix);
  Entry entry;
  if (calls_ == Calls::kPipelined) {
    Check(zoo_acreate2(handle_.get(), prefix.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, &OnCreated,
                       &entry),
          "create");
    Check(zoo_aget_children2(handle_.get(), folder.c_str(), 0, &OnNames, &entry), "get children");
    entry.answered.Await();
  } else {
    char node[kMostPath];
    Stat stat;  // Its czxid is the fencing token.
    Check(zoo_create2(handle_.get(), prefix.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, node,
                      sizeof node, &stat),
          "create");
    entry.node = node;
    entry.before = Before(folder, entry.node);
  }
  while (!entry.before.empty()) {
    AwaitEndOf(base_internal::Concat(folder, "/", entry.before));
    entry.before = Before(folder, entry.node);
  }
  return entry.node;
}

void PlainZooKeeper::Release(const std::string& node) { Check(zoo_delete(handle_.get(), node.c_str(), -1), "delete"); }

std::string PlainZooKeeper::Before(const std::string& folder, const std::string& node) {
  String_vector names = {};
  Check(zoo_get_children(handle_.get(), folder.c_str(), 0, &names), "get children");
  std::string before = LargestBelow(names, std::string_view(node).substr(folder.size() + 1));
  deallocate_String_vector(&names);
  return before;
}

// Reads the node, where `exists` would leave a watch behind of one that has gone already.
void PlainZooKeeper::AwaitEndOf(const std::string& node) {
  Event ended;
  char data[1];
  int size = sizeof data;
  const int code = zoo_wget(handle_.get(), node.c_str(), &OnEnd, &ended, data, &size, nullptr);
  if (code == ZNONODE) return;
  Check(code, "get");
  ended.Await();
}

}  // namespace stockade::bench
