#ifndef STOCKADE_EXAMPLES_COMMON_HTTP_SERVER_H_
#define STOCKADE_EXAMPLES_COMMON_HTTP_SERVER_H_

#include <httplib.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "common/connections.h"

namespace examples {

// cpp-httplib's server with the bounds that it lacks: a client that sends slowly, without end, or on and on has one
// thread for `request_time` at the most, and only until another client needs it (see Connections); and the destructor
// waits for no client. Listens on 127.0.0.1.
class HttpServer final : public httplib::Server {
 public:
  static constexpr size_t kThreads = 128;          // A connection has one for as long as it lasts...
  static constexpr size_t kMostConnections = 256;  // ... and so many are accepted, those that wait for one included.
  static constexpr size_t kMostBodyBytes = 4'096;
  static constexpr int kMostRequests = 10'000;  // Of one connection.

  // Sees a request's head, with its headers as the client sent them, which it may change, before anything else happens
  // with it. False: the connection ends with the answer, which should say so, because a body that nobody reads may
  // follow.
  using Admit = std::function<bool(httplib::Request&)>;

  // `request_time`: of a request, from its first byte on; the answer has another second. `idle_time`: between two
  // requests of a connection. A browser sends no request again on a connection that it has opened in advance, and that
  // ends as the request is sent. Chromium closes those after a minute, so we wait longer.
  explicit HttpServer(Admit admit, absl::Duration request_time = absl::Seconds(2),
                      absl::Duration idle_time = absl::Seconds(75));
  ~HttpServer() override;

  // False: cannot listen on the port. 0: one that is free. Connections wait until Start().
  bool Bind(uint16_t port);
  uint16_t port() const { return port_; }
  void Start();

 private:
  // httplib's hook: all that happens on a connection.
  bool process_and_close_socket(socket_t fd) override;
  void ServeConnection(socket_t fd);

  const Admit admit_;
  const absl::Duration request_time_;
  const absl::Duration idle_time_;
  socket_t listening_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> accept_ended_{false};
  Connections connections_{kThreads, kMostConnections};
  std::thread acceptor_;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_HTTP_SERVER_H_
