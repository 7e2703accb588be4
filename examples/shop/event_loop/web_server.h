#ifndef STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_WEB_SERVER_H_
#define STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_WEB_SERVER_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "event_loop/loop_lag.h"
#include "event_loop/web_shop.h"

namespace shop {

// An HTTP server on 127.0.0.1 with two event loops, each on a thread of its own. A connection stays with its loop.
class WebServer {
 public:
  static constexpr size_t kLoops = 2;
  static constexpr size_t kMostConnections = 10'000;  // Further ones are closed.
  static constexpr std::chrono::seconds kIdle{30};    // From one answer to the next.

  // Makes the shop that answers the requests of a loop.
  using MakeShop = std::function<std::unique_ptr<WebShop>(const asio::any_io_executor& loop)>;

  // Throws asio::system_error if it cannot listen on the port. 0: one that is free.
  WebServer(uint16_t port, prometheus::Registry& metrics, const MakeShop& make_shop);
  // Ends the loops. The backend of the shops must exist until then; calls that they wait for are left.
  ~WebServer();

  uint16_t port() const { return acceptor_->local_endpoint().port(); }
  LoopLag& lag() { return lag_; }

 private:
  struct Loop {
    asio::io_context io{1};
    std::unique_ptr<WebShop> shop;
    std::thread thread;
  };
  asio::awaitable<void> Accept();
  asio::awaitable<void> Serve(std::shared_ptr<asio::ip::tcp::socket> socket, WebShop& shop);
  void Count(const Request& request, int status, std::chrono::steady_clock::duration took);

  prometheus::Family<prometheus::Counter>& answers_;
  prometheus::Histogram& seconds_;
  LoopLag lag_;
  std::atomic<size_t> connections_ = 0;
  std::atomic<int64_t> last_logged_ = 0;  // Second of the steady clock.
  std::vector<std::unique_ptr<Loop>> loops_;
  std::optional<asio::ip::tcp::acceptor> acceptor_;
};

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_WEB_SERVER_H_
