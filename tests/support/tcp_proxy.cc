#include "support/tcp_proxy.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/loopback.h"

namespace stockade::testing {
namespace {

void PassAtOnce(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Appends what there is. False: the sender has ended.
bool Read(int from, std::string& into) {
  char buffer[16384];
  while (true) {
    const ssize_t got = recv(from, buffer, sizeof buffer, 0);
    if (got > 0) {
      into.append(buffer, static_cast<size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return got != 0 && errno == EAGAIN;
    }
  }
}

// Takes the first bytes out of `from`, at most `limit` of them, that the receiver takes, and counts them in `passed`.
// False: it takes no more.
bool Write(int to, std::string& from, size_t limit, uint64_t& passed) {
  const ssize_t sent = send(to, from.data(), std::min(limit, from.size()), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  from.erase(0, static_cast<size_t>(sent));
  passed += static_cast<uint64_t>(sent);
  return true;
}

// Without events, poll() must not hear of the socket's end either, or it would turn in circles.
pollfd Watched(int fd, bool reads, bool writes) {
  const auto events = static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
  return {.fd = events == 0 ? -1 : fd, .events = events, .revents = 0};
}

}  // namespace

TcpProxy::TcpProxy(uint16_t server_port) : TcpProxy(server_port, NetworkHost()) {}

TcpProxy::TcpProxy(uint16_t server_port, const NetworkHost& host)
    : address_({.server = kLoopbackHost, .proxy = kLoopbackHost}),
      host_(host),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      server_port_(server_port) {
  const NetworkHost::Scope there = host_.Enter();
  do {  // Another may take the port before it listens.
    if (listener_ >= 0) close(listener_);
    port_ = FreePort();
    listener_ = BoundSocket(At(port_, kLoopbackHost));
  } while (listener_ < 0 || listen(listener_, 128) != 0);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::TcpProxy(uint16_t port, Address address)
    : address_(std::move(address)),
      patience_(1000),
      port_(port),
      listener_(BoundSocket(port, address_.proxy)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      server_port_(port) {
  if (listener_ < 0 || listen(listener_, 128) != 0)
    base_internal::Fatal(base_internal::Concat("port ", port_, " is taken"));
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  for (const auto& link : links_) Close(*link);
  FreeClosed();
  for (const Caller& caller : callers_) close(caller.client);
  close(listener_);
  close(wake_);
}

void TcpProxy::CutReplyAfter(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  cut_after_ = bytes;
}

void TcpProxy::CutRequestAfter(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  cut_request_after_ = bytes;
}

void TcpProxy::FilterReplies(std::function<Filter()> make) {
  const std::lock_guard lock(mutex_);
  make_filter_ = std::move(make);
}

void TcpProxy::FilterRequests(std::function<Filter()> make) {
  const std::lock_guard lock(mutex_);
  make_request_filter_ = std::move(make);
}

void TcpProxy::CancelCut() {
  const std::lock_guard lock(mutex_);
  cut_after_.reset();
  cut_request_after_.reset();
  for (const auto& link : links_) {
    link->cut_after.reset();
    link->cut_request_after.reset();
  }
}

void TcpProxy::CloseAll() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& link : links_) Close(*link);
  }
  Wake();
}

void TcpProxy::SwitchTo(uint16_t server_port) {
  {
    const std::lock_guard lock(mutex_);
    server_port_ = server_port;
    for (const auto& link : links_) Close(*link);
  }
  Wake();
}

void TcpProxy::SwitchNewTo(uint16_t server_port) {
  const std::lock_guard lock(mutex_);
  server_port_ = server_port;
}

void TcpProxy::Refuse() {
  const std::lock_guard lock(mutex_);
  refusing_ = true;
}

void TcpProxy::Accept() {
  const std::lock_guard lock(mutex_);
  refusing_ = false;
}

void TcpProxy::Hold() {
  const std::lock_guard lock(mutex_);
  holding_ = true;
}

void TcpProxy::Release() {
  {
    const std::lock_guard lock(mutex_);
    holding_ = false;
  }
  Wake();
}

void TcpProxy::Freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

void TcpProxy::Thaw() {
  {
    const std::lock_guard lock(mutex_);
    frozen_ = false;
  }
  Wake();
}

TcpProxy::Counts TcpProxy::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool TcpProxy::Await(const std::function<bool(const Counts&)>& holds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return holds(counts_); });
}

void TcpProxy::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void TcpProxy::Run() {
  std::vector<pollfd> watched;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    watched = {Watched(wake_, true, false), Watched(listener_, !frozen_, false)};
    for (const auto& link : links_) {
      if (frozen_) break;
      watched.push_back(Watched(link->client, true, !holding_ && !link->to_client.empty()));
      watched.push_back(Watched(link->server, !link->server_ended, !link->to_server.empty()));
    }
    lock.unlock();
    poll(watched.data(), watched.size(), callers_.empty() ? -1 : 10);
    lock.lock();
    uint64_t woken = 0;
    (void)!read(wake_, &woken, sizeof woken);
    if (!frozen_) {
      for (const auto& link : links_) Pump(*link);
    }
    FreeClosed();
    if (!frozen_) AcceptClients();
    changed_.notify_all();
  }
}

void TcpProxy::AcceptClients() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) break;
    ++counts_.accepted;
    callers_.push_back({.client = client, .give_up = std::chrono::steady_clock::now() + patience_});
  }
  std::erase_if(callers_, [this](const Caller& caller) { return PutThrough(caller); });
}

// By the last three bytes of an address of 127.0.0.0/8, of which the first one stands for the host itself.
sockaddr_in TcpProxy::At(uint16_t port, uint32_t loopback) const {
  sockaddr_in address = Loopback(port, loopback);
  if (loopback == kLoopbackHost) inet_pton(AF_INET, host_.address().c_str(), &address.sin_addr);
  return address;
}

// False: it is to be tried again.
bool TcpProxy::PutThrough(const Caller& caller) {
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = At(server_port_, address_.server);
  if (!refusing_ && connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    PassAtOnce(caller.client);
    PassAtOnce(server);
    links_.push_back(std::make_unique<Link>(Link{.client = caller.client, .server = server}));
    if (make_filter_) links_.back()->filter = make_filter_();
    if (make_request_filter_) links_.back()->request_filter = make_request_filter_();
    ++counts_.open;
    return true;
  }
  close(server);
  if (!refusing_ && std::chrono::steady_clock::now() < caller.give_up) return false;
  close(caller.client);
  return true;
}

void TcpProxy::Pump(Link& link) {
  if (link.closed) return;
  std::string asked;
  const bool client_there = Read(link.client, asked);
  link.to_server += link.request_filter && !asked.empty() ? link.request_filter(std::move(asked)) : asked;
  const size_t at = address_.client_says.empty() ? std::string::npos : link.to_server.find(address_.client_says);
  if (at != std::string::npos) link.to_server.replace(at, address_.client_says.size(), address_.server_reads);
  if (cut_request_after_ && !link.to_server.empty()) {
    link.cut_request_after = std::exchange(cut_request_after_, std::nullopt);
  }
  const size_t pending = link.to_server.size();
  const size_t limit = std::min<uint64_t>(link.cut_request_after.value_or(pending), pending);
  const bool passed = Write(link.server, link.to_server, limit, counts_.to_server);
  if (link.cut_request_after) *link.cut_request_after -= pending - link.to_server.size();
  if (link.cut_request_after == uint64_t{0}) {
    ++counts_.cut;
    return Close(link);
  }
  const size_t before = link.to_client.size();
  std::string arrived;
  if (!Read(link.server, arrived) || !passed) link.server_ended = true;
  link.to_client += link.filter && !arrived.empty() ? link.filter(std::move(arrived)) : arrived;
  counts_.held += link.to_client.size() - before;
  if (!client_there) return Close(link);
  if (!holding_) PassToClient(link);
}

void TcpProxy::PassToClient(Link& link) {
  if (cut_after_ && !link.to_client.empty()) link.cut_after = std::exchange(cut_after_, std::nullopt);
  const size_t before = link.to_client.size();
  const bool taken = Write(link.client, link.to_client, link.cut_after.value_or(before), counts_.to_client);
  const size_t passed = before - link.to_client.size();
  counts_.held -= passed;
  if (link.cut_after) *link.cut_after -= passed;
  const bool cut = link.cut_after == uint64_t{0};
  if (cut) ++counts_.cut;
  if (cut || !taken || (link.server_ended && link.to_client.empty())) Close(link);
}

void TcpProxy::Close(Link& link) {
  if (std::exchange(link.closed, true)) return;
  shutdown(link.client, SHUT_RDWR);
  shutdown(link.server, SHUT_RDWR);
  counts_.held -= link.to_client.size();
  --counts_.open;
}

void TcpProxy::FreeClosed() {
  std::erase_if(links_, [](const auto& link) {
    if (!link->closed) return false;
    close(link->client);
    close(link->server);
    return true;
  });
}

}  // namespace stockade::testing
