#include "common/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/http_connection.h"
#include "common/http_head.h"

namespace examples {
namespace {

// httplib's threads, which count the connections before they queue them.
class CountingPool final : public httplib::TaskQueue {
 public:
  CountingPool(size_t threads, Connections* connections) : connections_(connections), pool_(threads) {}

  void enqueue(std::function<void()> serve) override {
    connections_->Accept();
    pool_.enqueue(std::move(serve));
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  Connections* const connections_;
  httplib::ThreadPool pool_;
};

// The answer to a head that httplib does not see.
std::string RefusalOfHead(const char* status, const char* code, const char* message) {
  const std::string body = absl::StrCat(R"({"error":{"code":")", code, R"(","message":")", message, R"("}})");
  return absl::StrCat("HTTP/1.1 ", status,
                      "\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
                      "\r\n\r\n", body);
}

}  // namespace

HttpServer::HttpServer(Admit admit, absl::Duration request_time, absl::Duration idle_time)
    : admit_(std::move(admit)), request_time_(request_time), idle_time_(idle_time) {
  new_task_queue = [this] { return new CountingPool(kThreads, &connections_); };
  set_payload_max_length(kMostBodyBytes);
  set_keep_alive_max_count(kMostRequests);  // These two only tell the client.
  set_keep_alive_timeout(absl::ToInt64Seconds(idle_time));
  // httplib's default lets a second server have the port as well.
  set_socket_options([this](socket_t fd) {
    listening_ = fd;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
}

HttpServer::~HttpServer() {
  if (!acceptor_.joinable()) return;
  connections_.Stop();
  stop();
  acceptor_.join();
}

bool HttpServer::Bind(uint16_t port) {
  const int bound = port == 0 ? bind_to_any_port("127.0.0.1") : bind_to_port("127.0.0.1", port) ? port : -1;
  if (bound <= 0) return false;
  port_ = static_cast<uint16_t>(bound);
  // httplib's backlog of 5 lets clients that connect together wait a second for their next SYN.
  return ::listen(listening_, SOMAXCONN) == 0;
}

void HttpServer::Start() {
  acceptor_ = std::thread([this] {
    listen_after_bind();
    accept_ended_.store(true);
  });
  // Before that stop() would do nothing.
  while (!is_running() && !accept_ended_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool HttpServer::process_and_close_socket(socket_t fd) {
  if (connections_.Open(fd)) {
    try {
      ServeConnection(fd);
    } catch (...) {  // Out of memory: the client sees the connection end.
    }
  }
  connections_.Close(fd);
  close(fd);
  return true;
}

void HttpServer::ServeConnection(socket_t fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  HttpConnection connection(fd, &connections_);
  for (int request = 1; request <= kMostRequests && connection.AwaitRequest(idle_time_); ++request) {
    if (!connection.ReceiveHead(request_time_)) {
      connection.write(RefusalOfHead("431 Request Header Fields Too Large", "request_too_long",
                                     "the request's headers are too long"));
      break;
    }
    std::optional<httplib::Headers> headers;
    if (!connection.head().empty()) {
      headers = ParseHeaders(connection.head());
      if (!headers) {
        connection.write(
            RefusalOfHead("400 Bad Request", "bad_header", "a line is not a header's name, a colon and a value"));
        break;
      }
    }
    bool understood = false;
    bool ends = false;
    const bool went_on = process_request(connection, request == kMostRequests, ends, [&](httplib::Request& head) {
      understood = true;
      if (headers) head.headers = *std::move(headers);  // httplib has decoded its own.
      if (!admit_(head)) ends = true;
    });
    if (!went_on || !understood || ends || connection.cut_short()) break;
  }
  if (connection.answered()) connection.Linger();
}

}  // namespace examples
