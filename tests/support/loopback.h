#ifndef STOCKADE_TESTS_SUPPORT_LOOPBACK_H_
#define STOCKADE_TESTS_SUPPORT_LOOPBACK_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "stockade/base/log.h"

namespace stockade::testing {

// 127.0.0.1 unless another address of 127.0.0.0/8 is named, of its last three bytes.
inline constexpr uint32_t kLoopbackHost = 1;

inline sockaddr_in Loopback(uint16_t port, uint32_t host = kLoopbackHost) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl((INADDR_LOOPBACK & IN_CLASSA_NET) | host);
  address.sin_port = htons(port);
  return address;
}

// A TCP socket bound to the address; -1 where another has it.
inline int BoundSocket(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}
inline int BoundSocket(uint16_t port, uint32_t host = kLoopbackHost) { return BoundSocket(Loopback(port, host)); }

// Reserves `port` for this process until it ends, among all processes that call this. False: it is reserved already. So
// a server that is down for a moment finds its port free when it starts again.
inline bool ReservePort(uint16_t port) {
  static std::mutex mutex;
  static std::set<uint16_t> ours;
  static const int file = [] {
    const std::string name = "stockade_test_ports_" + std::to_string(getuid()) + ".lock";
    const std::string path = std::filesystem::temp_directory_path() / name;
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) base_internal::Fatal("cannot open " + path);
    return fd;
  }();
  std::lock_guard own(mutex);
  // The byte at the port's number stands for the port. A process does not exclude itself.
  struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = port, .l_len = 1, .l_pid = 0};
  if (ours.contains(port) || fcntl(file, F_SETLK, &byte) != 0) return false;
  ours.insert(port);
  return true;
}

// A port that is free at every address of this machine, and reserved for this process. It is below the ports that Linux
// gives to clients: while a server is down, no client's end of a connection takes its port, nor connects to itself.
inline uint16_t FreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(20'000, 32'767);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<uint16_t>(ports(random));
    if (!ReservePort(port)) continue;
    sockaddr_in any = Loopback(port);
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    const int fd = BoundSocket(any);
    if (fd < 0) continue;
    close(fd);
    return port;
  }
  base_internal::Fatal("no free port between 20000 and 32767");
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_LOOPBACK_H_
