#include "common/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "stockade/base/clock.h"

namespace examples {
namespace {

using stockade::Clock;
using stockade::Instant;

constexpr absl::Duration kAnswerTime = absl::Seconds(1);
constexpr absl::Duration kLingerTime = absl::Seconds(1);
constexpr size_t kLingerBytes = 1 << 20;

bool IsReady(int fd, short events, int milliseconds) {
  pollfd wanted{.fd = fd, .events = events, .revents = 0};
  return poll(&wanted, 1, milliseconds) > 0;
}

// The bytes of the head that `received` begins with, the empty line included; 0: its end is not there.
size_t HeadSize(std::string_view received) {
  constexpr std::string_view kEnd = "\n\r\n";
  const size_t end = received.find(kEnd);
  return end == std::string_view::npos ? 0 : end + kEnd.size();
}

bool HasTooLongHeader(std::string_view head) {
  size_t line = head.find('\n') + 1;  // The first line is the request's: httplib answers 414.
  while (line < head.size()) {
    const size_t next = head.find('\n', line) + 1;
    if (next - line > HttpConnection::kMostHeaderBytes) return true;
    line = next;
  }
  return false;
}

}  // namespace

HttpConnection::HttpConnection(socket_t fd, Connections* connections) : fd_(fd), connections_(connections) {}

bool HttpConnection::Await(short events, Instant deadline) const {
  if (Clock::System()->Now() < deadline && IsReady(fd_, events, 0)) return true;
  const Connections::Wait wait(*connections_, turn_, fd_);
  while (true) {
    const absl::Duration left = deadline - Clock::System()->Now();
    if (left <= absl::ZeroDuration()) return false;
    if (IsReady(fd_, events, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1)) return true;
  }
}

bool HttpConnection::AwaitRequest(absl::Duration idle) {
  turn_ = connections_->NextTurn();
  return begin_ < end_ || Await(POLLIN, Clock::System()->Now() + idle);
}

bool HttpConnection::ReceiveHead(absl::Duration time) {
  deadline_ = Clock::System()->Now() + time;
  cut_short_ = false;
  answered_ = false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (true) {
    const std::string_view received(buffer_.data(), end_);
    head_size_ = HeadSize(received);
    if (head_size_ > 0) return !HasTooLongHeader(received.substr(0, head_size_));
    if (end_ == buffer_.size()) return false;
    if (!Receive()) return true;  // httplib meets the end where the client stopped, and answers.
  }
}

bool HttpConnection::Receive() {
  const ssize_t got = Await(POLLIN, deadline_) ? recv(fd_, buffer_.data() + end_, buffer_.size() - end_, 0) : -1;
  if (got > 0) end_ += static_cast<size_t>(got);
  return got > 0;
}

void HttpConnection::Linger() {
  shutdown(fd_, SHUT_WR);
  const Instant deadline = Clock::System()->Now() + kLingerTime;
  for (size_t drained = 0; drained < kLingerBytes && Await(POLLIN, deadline);) {
    const ssize_t got = recv(fd_, buffer_.data(), buffer_.size(), 0);
    if (got <= 0) return;
    drained += static_cast<size_t>(got);
  }
}

bool HttpConnection::is_readable() const { return begin_ < end_ || Await(POLLIN, deadline_); }

bool HttpConnection::is_writable() const { return Await(POLLOUT, deadline_); }

ssize_t HttpConnection::read(char* bytes, size_t size) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (!Receive()) {
      cut_short_ = true;
      return -1;
    }
  }
  const size_t taken = std::min(size, end_ - begin_);
  std::memcpy(bytes, buffer_.data() + begin_, taken);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t HttpConnection::write(const char* bytes, size_t size) {
  // A client that was too slow still gets an answer that says so.
  if (!answered_) deadline_ = std::max(deadline_, Clock::System()->Now() + kAnswerTime);
  answered_ = true;
  if (!Await(POLLOUT, deadline_)) return -1;
  return send(fd_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Nobody asks.
void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const { get_remote_ip_and_port(ip, port); }

}  // namespace examples
