#include "redis/support/raw_redis.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>

#include "stockade/base/strings.h"
#include "support/loopback.h"

namespace stockade::testing {

std::string RawReply::ValueOf(std::string_view name) const {
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].text == name) return items[i + 1].text;
  }
  return "";
}

std::ostream& operator<<(std::ostream& out, const RawReply& reply) {
  out << reply.type << reply.text;
  if (reply.type != '*') return out;
  out << '[';
  for (const RawReply& item : reply.items) out << item << ' ';
  return out << ']';
}

RawRedis::RawRedis(uint16_t port, const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  LimitWaits();
  sockaddr_in server = Loopback(port);
  inet_pton(AF_INET, address.c_str(), &server.sin_addr);
  (void)connect(fd_, reinterpret_cast<const sockaddr*>(&server), sizeof server);
}

RawRedis::RawRedis(const std::string& unix_socket) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  LimitWaits();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  unix_socket.copy(address.sun_path, sizeof address.sun_path - 1);
  (void)connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

RawRedis::~RawRedis() { close(fd_); }

void RawRedis::LimitWaits() {
  const timeval limit = {.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

std::string RawRedis::Encode(const std::vector<std::string>& command) {
  std::string bytes = base_internal::Concat("*", command.size(), "\r\n");
  for (const std::string& word : command) bytes += base_internal::Concat("$", word.size(), "\r\n", word, "\r\n");
  return bytes;
}

RawReply RawRedis::Call(const std::vector<std::string>& command) {
  Send(Encode(command));
  return Read();
}

void RawRedis::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // The reply's absence shows it.
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool RawRedis::ReadMore() {
  char buffer[16384];
  const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
  if (got <= 0) return false;
  unread_.append(buffer, static_cast<size_t>(got));
  return true;
}

bool RawRedis::ReadLine(std::string& line) {
  size_t end = 0;
  while ((end = unread_.find("\r\n")) == std::string::npos) {
    if (!ReadMore()) return false;
  }
  line = unread_.substr(0, end);
  unread_.erase(0, end + 2);
  return true;
}

RawReply RawRedis::Read() {
  std::string line;
  if (!ReadLine(line) || line.empty()) return {};
  RawReply reply{.type = line[0], .text = line.substr(1)};
  if (reply.type != '$' && reply.type != '*') return reply;
  const int64_t size = std::atoll(reply.text.c_str());
  reply.text.clear();
  if (size < 0) return {.type = '_'};
  if (reply.type == '*') {
    for (int64_t i = 0; i < size; ++i) {
      reply.items.push_back(Read());
      if (reply.items.back().lost()) return {};
    }
    return reply;
  }
  const size_t with_end = static_cast<size_t>(size) + 2;
  while (unread_.size() < with_end) {
    if (!ReadMore()) return {};
  }
  reply.text = unread_.substr(0, with_end - 2);
  unread_.erase(0, with_end);
  return reply;
}

RawReply CallRedis(uint16_t port, const std::vector<std::string>& command) { return RawRedis(port).Call(command); }

std::string InfoField(std::string_view info, std::string_view field) {
  const std::string begin = base_internal::Concat(field, ":");
  size_t at = info.starts_with(begin) ? 0 : info.find("\n" + begin);
  if (at == std::string_view::npos) return "";
  at = info.find(':', at) + 1;
  return std::string(info.substr(at, info.find('\r', at) - at));
}

}  // namespace stockade::testing
