#include "event_loop/web_server.h"

#include <array>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/address_v4.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace shop {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

const prometheus::Histogram::BucketBoundaries kSeconds = {0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                          0.05,   0.1,    0.25,  0.27,  0.5,   1,    2.5};

}  // namespace

WebServer::WebServer(uint16_t port, prometheus::Registry& metrics, const MakeShop& make_shop)
    : answers_(
          prometheus::BuildCounter().Name("shop_http_answers_total").Help("Answers, by status.").Register(metrics)),
      seconds_(prometheus::BuildHistogram()
                   .Name("shop_http_answer_seconds")
                   .Help("From a request to its answer.")
                   .Register(metrics)
                   .Add({}, kSeconds)),
      lag_(prometheus::BuildHistogram()
               .Name("shop_loop_lag_seconds")
               .Help("How late the event loops come to what is due.")
               .Register(metrics)
               .Add({}, kSeconds)) {
  for (size_t i = 0; i < kLoops; ++i) {
    loops_.push_back(std::make_unique<Loop>());
    loops_[i]->shop = make_shop(loops_[i]->io.get_executor());
  }
  acceptor_.emplace(loops_[0]->io, tcp::endpoint(asio::ip::address_v4::loopback(), port));
  asio::co_spawn(loops_[0]->io, Accept(), asio::detached);
  for (const std::unique_ptr<Loop>& loop : loops_) {
    asio::co_spawn(loop->io, lag_.Watch(), asio::detached);
    loop->thread = std::thread([&io = loop->io] { io.run(); });
  }
}

// With a context, all that waits in it is destroyed: connections, and the calls that their requests wait for.
WebServer::~WebServer() {
  for (const std::unique_ptr<Loop>& loop : loops_) loop->io.stop();
  for (const std::unique_ptr<Loop>& loop : loops_) loop->thread.join();
}

asio::awaitable<void> WebServer::Accept() {
  asio::steady_timer pause(loops_[0]->io);
  for (size_t next = 0;; next = (next + 1) % kLoops) {
    Loop& loop = *loops_[next];
    bool failed = false;
    try {
      tcp::socket socket = co_await acceptor_->async_accept(loop.io, use_awaitable);
      if (connections_ >= kMostConnections) continue;
      asio::co_spawn(loop.io, Serve(std::make_shared<tcp::socket>(std::move(socket)), *loop.shop), asio::detached);
    } catch (const std::exception& error) {  // Such as no more file descriptors.
      std::fprintf(stderr, "no connection: %s\n", error.what());
      failed = true;
    }
    if (!failed) continue;
    pause.expires_after(std::chrono::milliseconds(100));
    co_await pause.async_wait(use_awaitable);
  }
}

asio::awaitable<void> WebServer::Serve(std::shared_ptr<tcp::socket> socket, WebShop& shop) {
  ++connections_;
  const absl::Cleanup gone = [this] { --connections_; };
  asio::steady_timer idle(socket->get_executor());
  std::string received;
  std::array<char, 4096> part;
  try {
    socket->set_option(tcp::no_delay(true));
    for (;;) {
      idle.expires_after(kIdle);
      idle.async_wait([waits = std::weak_ptr(socket)](const asio::error_code& cancelled) {
        if (const auto open = waits.lock(); open != nullptr && !cancelled) open->close();
      });
      absl::StatusOr<std::optional<Request>> request = TakeRequest(received);
      while (request.ok() && !request->has_value()) {
        const size_t bytes = co_await socket->async_read_some(asio::buffer(part), use_awaitable);
        received.append(part.data(), bytes);
        request = TakeRequest(received);
      }
      Request taken = {.keep_alive = false};
      Response response = {.status = 400, .body = absl::StrCat(std::string(request.status().message()), "\n")};
      const Clock::time_point begun = Clock::now();
      if (request.ok()) {
        taken = **std::move(request);
        response = co_await shop.Answer(taken);
      }
      Count(taken, response.status, Clock::now() - begun);
      const std::string text = Format(response, taken);
      co_await asio::async_write(*socket, asio::buffer(text), use_awaitable);
      if (!taken.keep_alive) co_return;
    }
  } catch (const std::exception&) {  // The client has gone, or is too slow.
  }
}

void WebServer::Count(const Request& request, int status, Clock::duration took) {
  answers_.Add({{"status", std::to_string(status)}}).Increment();
  seconds_.Observe(std::chrono::duration<double>(took).count());
  if (status < 500) return;
  // A line a second is enough to find the request in the traces.
  const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
  if (last_logged_.exchange(second) == second) return;
  std::fprintf(stderr, "trace %s: %s %s was answered with %d after %.0f ms\n", request.trace_id.c_str(),
               request.method.c_str(), request.path.c_str(), status,
               std::chrono::duration<double, std::milli>(took).count());
}

}  // namespace shop
