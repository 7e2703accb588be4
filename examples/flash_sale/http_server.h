#ifndef STOCKADE_EXAMPLES_FLASH_SALE_HTTP_SERVER_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_HTTP_SERVER_H_

#include <httplib.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "absl/time/time.h"

namespace flash_sale {

// cpp-httplib's server with the bounds that it lacks: a client that sends slowly, without end, or on and on has one
// thread for kRequestTime at the most; and Stop() waits for no client. Listens on 127.0.0.1.
class HttpServer final : public httplib::Server {
 public:
  static constexpr size_t kThreads = 128;          // A connection has one for as long as it lasts...
  static constexpr size_t kMostConnections = 256;  // ... and so many are accepted, those that wait for one included.
  static constexpr size_t kMostRequestBytes = 32'768;  // Of head and body, before the connection is given up.
  static constexpr size_t kMostBodyBytes = 4'096;
  static constexpr int kMostRequests = 10'000;  // Of one connection.
  static constexpr absl::Duration kRequestTime =
      absl::Seconds(2);  // From its first byte on; the answer has another second.
  static constexpr absl::Duration kIdleTime = absl::Seconds(5);  // Between two requests.

  // Sees a request's head, which it may change, before anything else happens with it. False: the connection ends with
  // the answer, which should say so, because a body that nobody reads may follow.
  using Admit = std::function<bool(httplib::Request&)>;

  explicit HttpServer(Admit admit);
  ~HttpServer() override;

  // False: cannot listen on the port. 0: one that is free. Connections wait until Start().
  bool Bind(uint16_t port);
  uint16_t port() const { return port_; }
  void Start();

 private:
  // httplib's hook: all that happens on a connection.
  bool process_and_close_socket(socket_t fd) override;
  void ServeConnection(socket_t fd);
  bool Enrol(socket_t fd);

  const Admit admit_;
  uint16_t port_ = 0;
  std::atomic<bool> accept_ended_{false};
  std::mutex mutex_;
  bool stopping_ = false;              // This and the next are guarded by mutex_.
  std::unordered_set<socket_t> open_;  // Connections that a thread serves.
  std::thread acceptor_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_HTTP_SERVER_H_
