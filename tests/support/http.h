#ifndef STOCKADE_TESTS_SUPPORT_HTTP_H_
#define STOCKADE_TESTS_SUPPORT_HTTP_H_

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "support/loopback.h"

namespace stockade::testing {

// A connection for what no HTTP library would send. Reads end after half a minute without a byte.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const sockaddr_in address = Loopback(port);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() { close(fd_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return connected_; }

  // Whether all of it was taken.
  bool Send(const std::string& bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  // All that comes until the server ends the connection.
  std::string ReadToEnd() {
    std::string answer;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = read(fd_, buffer, sizeof buffer)) > 0) answer.append(buffer, static_cast<size_t>(got));
    return answer;
  }

 private:
  const int fd_;
  bool connected_ = false;
};

// The answer to `request`, after which the server, or its own "Connection: close", ends the connection.
inline std::string RawAnswer(uint16_t port, const std::string& request) {
  RawConnection connection(port);
  connection.Send(request);
  return connection.ReadToEnd();
}

inline std::string BodyOf(const std::string& answer) {
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.substr(body + 4);
}

// The body of http://127.0.0.1:port/metrics; empty where it is not answered with 200.
inline std::string Scrape(uint16_t port) {
  const std::string answer = RawAnswer(port, "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
  return answer.find(" 200 ") == std::string::npos ? "" : BodyOf(answer);
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_HTTP_H_
