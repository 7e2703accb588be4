#include "http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <utility>

#include "http_connection.h"

namespace flash_sale {
namespace {

// httplib's threads, and a bound to the connections that wait for them: beyond it none is accepted.
class BoundedPool final : public httplib::TaskQueue {
 public:
  BoundedPool(size_t threads, size_t most) : most_(most), pool_(threads) {}

  void enqueue(std::function<void()> serve) override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return connections_ < most_; });
      ++connections_;
    }
    pool_.enqueue([this, serve = std::move(serve)] {
      serve();
      const std::lock_guard lock(mutex_);
      --connections_;
      changed_.notify_one();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t connections_ = 0;  // Guarded by mutex_.
  httplib::ThreadPool pool_;
};

constexpr char kTooLong[] =
    "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Type: application/json\r\n"
    "Content-Length: 72\r\n\r\n"
    R"({"error":{"code":"request_too_long","message":"the request is endless"}})";

}  // namespace

HttpServer::HttpServer(Admit admit) : admit_(std::move(admit)) {
  new_task_queue = [] { return new BoundedPool(kThreads, kMostConnections); };
  set_payload_max_length(kMostBodyBytes);
  set_keep_alive_max_count(kMostRequests);  // These two only tell the client.
  set_keep_alive_timeout(absl::ToInt64Seconds(kIdleTime));
  // httplib's default lets a second server have the port as well.
  set_socket_options([](socket_t fd) {
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
}

HttpServer::~HttpServer() {
  if (!acceptor_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const socket_t fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  stop();
  acceptor_.join();
}

bool HttpServer::Bind(uint16_t port) {
  if (port == 0) {
    const int bound = bind_to_any_port("127.0.0.1");
    port_ = static_cast<uint16_t>(bound);
    return bound > 0;
  }
  port_ = port;
  return bind_to_port("127.0.0.1", port);
}

void HttpServer::Start() {
  acceptor_ = std::thread([this] {
    listen_after_bind();
    accept_ended_.store(true);
  });
  // Before that stop() would do nothing.
  while (!is_running() && !accept_ended_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool HttpServer::Enrol(socket_t fd) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  open_.insert(fd);
  return true;
}

bool HttpServer::process_and_close_socket(socket_t fd) {
  if (Enrol(fd)) {
    try {
      ServeConnection(fd);
    } catch (...) {  // Out of memory: the client sees the connection end.
    }
    const std::lock_guard lock(mutex_);
    open_.erase(fd);
  }
  close(fd);
  return true;
}

void HttpServer::ServeConnection(socket_t fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  HttpConnection connection(fd);
  for (int request = 1; request <= kMostRequests && connection.AwaitRequest(kIdleTime); ++request) {
    connection.BeginRequest(kMostRequestBytes, kRequestTime);
    bool understood = false;
    bool ends = false;
    const bool went_on = process_request(connection, request == kMostRequests, ends, [&](httplib::Request& head) {
      understood = true;
      if (!admit_(head)) ends = true;
    });
    if (!connection.answered() && connection.too_long()) connection.write(kTooLong, sizeof kTooLong - 1);
    if (!went_on || !understood || ends || connection.cut_short()) break;
  }
  if (connection.answered()) connection.Linger();
}

}  // namespace flash_sale
