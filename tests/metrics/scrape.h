#ifndef STOCKADE_TESTS_METRICS_SCRAPE_H_
#define STOCKADE_TESTS_METRICS_SCRAPE_H_

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "support/loopback.h"

namespace stockade::testing {

// The answer to GET /metrics on a loopback port, headers included; empty where nobody answers.
inline std::string Scrape(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  std::string answer;
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    char buffer[1 << 16];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_METRICS_SCRAPE_H_
