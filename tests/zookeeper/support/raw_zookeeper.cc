#include "zookeeper/support/raw_zookeeper.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <functional>

#include "support/loopback.h"

namespace stockade::testing {
namespace {

// Of its protocol.
constexpr int32_t kCreate = 1;
constexpr int32_t kDelete = 2;
constexpr int32_t kExists = 3;
constexpr int32_t kGetData = 4;
constexpr int32_t kGetChildren = 8;
constexpr int32_t kSync = 9;
constexpr int32_t kCloseSession = -11;
constexpr int32_t kNoNode = -101;
constexpr int32_t kNodeExists = -110;
constexpr int32_t kAllPermissions = 31;
constexpr int32_t kAnyVersion = -1;
constexpr size_t kReplyHeader = 16;

int Connected(uint16_t port, time_t limit_s) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit = {.tv_sec = limit_s, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const sockaddr_in address = Loopback(port);
  (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return fd;
}

template <std::integral Integer>
std::string Encoded(Integer value) {
  std::string bytes;
  for (size_t shift = sizeof(Integer) * 8; shift > 0; shift -= 8) {
    bytes += static_cast<char>((static_cast<uint64_t>(value) >> (shift - 8)) & 0xff);
  }
  return bytes;
}

std::string Encoded(std::string_view text) { return Encoded(static_cast<int32_t>(text.size())).append(text); }

int32_t TakeInt(std::string_view& bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4 && !bytes.empty(); ++i) {
    value = (value << 8) | static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
  }
  return static_cast<int32_t>(value);
}

std::string TakeText(std::string_view& bytes) {
  const int32_t size = TakeInt(bytes);
  std::string text(bytes.substr(0, size < 0 ? 0 : static_cast<size_t>(size)));
  bytes.remove_prefix(text.size());
  return text;
}

std::string Child(const std::string& path, const std::string& name) { return (path == "/" ? "" : path) + "/" + name; }

}  // namespace

RawZooKeeper::RawZooKeeper(uint16_t port) : fd_(Connected(port, 20)) {
  constexpr int32_t kProtocol = 0;
  constexpr int32_t kTimeoutMs = 30'000;
  Send(Encoded(kProtocol) + Encoded(int64_t{0}) + Encoded(kTimeoutMs) + Encoded(int64_t{0}) +
       Encoded(std::string(16, '\0')));
  connected_ = Receive().has_value();
}

RawZooKeeper::~RawZooKeeper() {
  if (connected_) (void)Call(kCloseSession, "");
  close(fd_);
}

void RawZooKeeper::Send(std::string_view body) {
  const std::string bytes = Encoded(body);
  (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);  // The reply's absence shows what is wrong.
}

std::optional<std::string> RawZooKeeper::Receive() {
  const auto read = [this](size_t size) {
    std::string bytes(size, '\0');
    bytes.resize(std::max<ssize_t>(0, recv(fd_, bytes.data(), size, MSG_WAITALL)));
    return bytes;
  };
  const std::string head = read(4);
  std::string_view left = head;
  const auto size = static_cast<size_t>(TakeInt(left));
  if (head.size() < 4) return std::nullopt;
  std::string body = read(size);
  if (body.size() < size) return std::nullopt;
  return body;
}

std::optional<RawZooKeeper::Reply> RawZooKeeper::Call(int32_t type, std::string_view body) {
  if (!connected_) return std::nullopt;
  Send(Encoded(++requests_) + Encoded(type).append(body));
  const std::optional<std::string> answer = Receive();
  if (!answer || answer->size() < kReplyHeader) {
    connected_ = false;
    return std::nullopt;
  }
  std::string_view error = std::string_view(*answer).substr(kReplyHeader - 4);
  return Reply{.error = TakeInt(error), .body = answer->substr(kReplyHeader)};
}

std::optional<std::vector<std::string>> RawZooKeeper::Children(const std::string& path) {
  const std::optional<Reply> reply = Call(kGetChildren, Encoded(path) + '\0');
  if (!reply || reply->error != 0) return std::nullopt;
  std::string_view body = reply->body;
  std::vector<std::string> children(static_cast<size_t>(TakeInt(body)));
  for (std::string& child : children) child = TakeText(body);
  return children;
}

std::optional<std::string> RawZooKeeper::Data(const std::string& path) {
  const std::optional<Reply> reply = Call(kGetData, Encoded(path) + '\0');
  if (!reply || reply->error != 0) return std::nullopt;
  std::string_view body = reply->body;
  return TakeText(body);
}

bool RawZooKeeper::Exists(const std::string& path) {
  const std::optional<Reply> reply = Call(kExists, Encoded(path) + '\0');
  return reply && reply->error == 0;
}

bool RawZooKeeper::Create(const std::string& path) {
  const std::string anybody = Encoded(int32_t{1}) + Encoded(kAllPermissions) + Encoded("world") + Encoded("anyone");
  constexpr int32_t kPersistent = 0;
  const std::optional<Reply> reply = Call(kCreate, Encoded(path) + Encoded("") + anybody + Encoded(kPersistent));
  return reply && (reply->error == 0 || reply->error == kNodeExists);
}

bool RawZooKeeper::Delete(const std::string& path) {
  const std::optional<Reply> reply = Call(kDelete, Encoded(path) + Encoded(kAnyVersion));
  return reply && (reply->error == 0 || reply->error == kNoNode);
}

void RawZooKeeper::DeleteTree(const std::string& path) {
  if (path == "/zookeeper") return;
  std::vector<std::string> children = Children(path).value_or(std::vector<std::string>());
  // The last of a queue first: otherwise it would enter, and lose what it has then.
  const auto sequence = [](const std::string& child) {
    return child.substr(child.size() - std::min(child.size(), size_t{10}));
  };
  std::ranges::sort(children, std::ranges::greater(), sequence);
  for (const std::string& child : children) DeleteTree(Child(path, child));
  if (path != "/") Delete(path);
}

std::vector<std::string> RawZooKeeper::Leaves(const std::string& path) {
  std::vector<std::string> leaves;
  for (const std::string& child : Children(path).value_or(std::vector<std::string>())) {
    if (Child(path, child) == "/zookeeper") continue;
    const std::vector<std::string> below = Leaves(Child(path, child));
    leaves.insert(leaves.end(), below.begin(), below.end());
    if (below.empty()) leaves.push_back(Child(path, child));
  }
  return leaves;
}

void RawZooKeeper::Sync(const std::string& path) { (void)Call(kSync, Encoded(path)); }

std::string FourLetterWord(uint16_t port, std::string_view word) {
  const int fd = Connected(port, 2);
  (void)!send(fd, word.data(), word.size(), MSG_NOSIGNAL);
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<size_t>(got));
  close(fd);
  return answer;
}

}  // namespace stockade::testing
