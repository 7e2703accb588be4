#include "http_connection.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "stockade/base/clock.h"

namespace flash_sale {
namespace {

using stockade::Clock;
using stockade::Instant;

constexpr absl::Duration kAnswerTime = absl::Seconds(1);
constexpr absl::Duration kLingerTime = absl::Seconds(1);
constexpr size_t kLingerBytes = 1 << 20;

}  // namespace

HttpConnection::HttpConnection(socket_t fd) : fd_(fd) {}

bool HttpConnection::Await(short events, Instant deadline) const {
  while (true) {
    const absl::Duration left = deadline - Clock::System()->Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd wanted{.fd = fd_, .events = events, .revents = 0};
    const int ready = poll(&wanted, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool HttpConnection::AwaitRequest(absl::Duration idle) {
  return begin_ < end_ || Await(POLLIN, Clock::System()->Now() + idle);
}

void HttpConnection::BeginRequest(size_t bytes, absl::Duration time) {
  deadline_ = Clock::System()->Now() + time;
  bytes_left_ = bytes;
  cut_short_ = false;
  answered_ = false;
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
    const ssize_t got = bytes_left_ > 0 && Await(POLLIN, deadline_) ? recv(fd_, buffer_.data(), buffer_.size(), 0) : -1;
    if (got <= 0) {
      cut_short_ = true;
      return got;
    }
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  const size_t taken = std::min({size, end_ - begin_, bytes_left_});
  if (taken == 0) {
    cut_short_ = true;
    return -1;
  }
  std::memcpy(bytes, buffer_.data() + begin_, taken);
  begin_ += taken;
  bytes_left_ -= taken;
  return static_cast<ssize_t>(taken);
}

ssize_t HttpConnection::write(const char* bytes, size_t size) {
  // Who was too slow is told so.
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

}  // namespace flash_sale
