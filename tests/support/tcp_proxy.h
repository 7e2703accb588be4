#ifndef STOCKADE_TESTS_SUPPORT_TCP_PROXY_H_
#define STOCKADE_TESTS_SUPPORT_TCP_PROXY_H_

#include <netinet/in.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/network.h"

namespace stockade::testing {

// A proxy between clients and a server on 127.0.0.1, which does to their connections what a network does. One thread
// passes the bytes. Thread-safe. A call has taken effect when it returns, except on bytes that were on their way to the
// client already.
class TcpProxy {
 public:
  struct Counts {
    uint64_t accepted = 0;  // Connections, with those that were refused.
    uint64_t open = 0;
    uint64_t to_server = 0;  // Bytes passed.
    uint64_t to_client = 0;
    uint64_t held = 0;  // Bytes of the server that wait for Release().
    uint64_t cut = 0;   // Connections that CutReplyAfter() and CutRequestAfter() have closed.
  };

  explicit TcpProxy(uint16_t server_port);
  // The same on the host of a network, at its address, and the server's.
  TcpProxy(uint16_t server_port, const NetworkHost& host);
  // Listens on the server's port, at an address of 127.0.0.0/8 of its own, as Loopback() has it. If the server does not
  // listen yet, its clients wait for a second: they get no refusal, as they would without a proxy.
  struct Address {
    uint32_t server = 0;
    uint32_t proxy = 0;
    // Clients that tell the server where they can be reached: what it is to read instead. Of one length.
    std::string client_says = {};
    std::string server_reads = {};
  };
  TcpProxy(uint16_t port, Address address);
  ~TcpProxy();

  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  uint16_t port() const { return port_; }

  // Once the server has sent something more, passes `bytes` of it and closes the connection it came by: what the server
  // has done stands, and the client does not hear of it. For one connection, the first to get that far; again for each
  // call, after which all passes as before.
  void CutReplyAfter(uint64_t bytes);
  void DropReply() { CutReplyAfter(0); }
  // The same of what a client sends: the server gets `bytes` of it, and the client no reply.
  void CutRequestAfter(uint64_t bytes);
  // A cut that is still to come does not come.
  void CancelCut();

  // Closes the connections that are open, or that clients open until Accept().
  void CloseAll();
  void Refuse();
  void Accept();

  // Closes the connections that are open, and passes those that clients open from now on to another server.
  void SwitchTo(uint16_t server_port);
  // The same without closing any: two servers have clients at once.
  void SwitchNewTo(uint16_t server_port);

  // Keeps what the server sends, as a slow server would, until Release().
  void Hold();
  void Release();

  // As a cable that is pulled: neither side hears anything of the other, not even its end, until Thaw(), when all of it
  // arrives.
  void Freeze();
  void Thaw();

  // What a connection's server sends goes through a filter of its own from its first byte on: the client gets what the
  // filter returns of it. For connections that clients open from now on. `make` and the filters run on the proxy's
  // thread, and must not call it.
  using Filter = std::function<std::string(std::string arrived)>;
  void FilterReplies(std::function<Filter()> make);
  // The same of what the clients send.
  void FilterRequests(std::function<Filter()> make);

  Counts counts() const;
  // Blocks until it is true of the counts; false where that takes 30 seconds.
  bool Await(const std::function<bool(const Counts&)>& holds);

 private:
  struct Link {
    int client;
    int server;
    std::string to_server = {};
    std::string to_client = {};
    Filter filter = {};
    Filter request_filter = {};
    std::optional<uint64_t> cut_after = {};          // Bytes to the client.
    std::optional<uint64_t> cut_request_after = {};  // Bytes to the server.
    bool server_ended = false;                       // Closed once the client has what is left for it.
    bool closed = false;  // Shut down; the thread frees it, which may be waiting on its sockets.
  };

  struct Caller {
    int client;
    std::chrono::steady_clock::time_point give_up;
  };

  void Run();
  void Wake();
  // All below under mutex_.
  sockaddr_in At(uint16_t port, uint32_t loopback) const;
  void AcceptClients();
  bool PutThrough(const Caller& caller);
  void Pump(Link& link);
  void PassToClient(Link& link);
  void Close(Link& link);
  void FreeClosed();

  const Address address_;
  const NetworkHost host_ = {};
  const std::chrono::milliseconds patience_{0};  // With a server that does not listen.
  uint16_t port_ = 0;
  int listener_ = -1;
  const int wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Counts counts_;
  uint16_t server_port_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Caller> callers_;  // Not put through yet.
  std::optional<uint64_t> cut_after_;
  std::optional<uint64_t> cut_request_after_;
  std::function<Filter()> make_filter_;
  std::function<Filter()> make_request_filter_;
  bool refusing_ = false;
  bool holding_ = false;
  bool frozen_ = false;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_TCP_PROXY_H_
