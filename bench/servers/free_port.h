#ifndef STOCKADE_BENCH_SERVERS_FREE_PORT_H_
#define STOCKADE_BENCH_SERVERS_FREE_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "stockade/base/log.h"

namespace stockade::bench {

// A port of 127.0.0.1 that nobody listens on now. Aborts where there is none.
inline uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    base_internal::Fatal("bench: no free port on 127.0.0.1");
  }
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_SERVERS_FREE_PORT_H_
