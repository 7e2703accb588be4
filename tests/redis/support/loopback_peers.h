#ifndef STOCKADE_TESTS_REDIS_SUPPORT_LOOPBACK_PEERS_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_LOOPBACK_PEERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <thread>

namespace stockade::testing {

// A server at each address of 127.0.0.0/8, on one port, that answers with the bytes that a test wants: for clusters of
// hundreds of nodes that no real server makes. One thread serves all connections, so that a test can count the threads
// and descriptors of its client. Thread-safe.
class LoopbackPeers {
 public:
  struct Command {
    std::string host;     // The address of the server, as the client has named it.
    uint64_t connection;  // Counts from 1.
    std::string words;    // With a blank between them.
  };
  // Returns the bytes to answer with, which may be none. Nothing: the connection is closed. Runs on the server's
  // thread.
  using Answer = std::function<std::optional<std::string>(const Command& command)>;

  explicit LoopbackPeers(Answer answer);
  ~LoopbackPeers();

  LoopbackPeers(const LoopbackPeers&) = delete;
  LoopbackPeers& operator=(const LoopbackPeers&) = delete;

  uint16_t port() const { return port_; }
  uint64_t accepted() const { return accepted_; }

  // A host of its own for each number below 2^22.
  static std::string Host(uint32_t number);

 private:
  struct Connection {
    int fd;
    uint64_t number;
    std::string host;
    std::string in = {};
    std::string out = {};
  };

  void Serve();
  void Accept();
  // False: it has ended.
  bool Attend(Connection& connection, short events);

  const Answer answer_;
  uint16_t port_ = 0;
  int listener_ = -1;
  int wake_ = -1;
  std::atomic<uint64_t> accepted_ = 0;
  std::list<Connection> connections_;  // The thread's.
  std::thread thread_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_LOOPBACK_PEERS_H_
