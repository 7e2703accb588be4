#ifndef STOCKADE_TESTS_REDIS_SUPPORT_RAW_PEER_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_RAW_PEER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace stockade::testing {

// Listens on 127.0.0.1 and answers with the bytes that a test wants: for what no real server says. Thread-safe.
class RawPeer {
 public:
  // `connection` counts from 0; `command` is its words with a blank between them. Returns the bytes to answer with,
  // which may be none. Runs on a thread for each connection. The name that a client gives itself is not asked for.
  using Answer = std::function<std::string(size_t connection, const std::string& command)>;

  explicit RawPeer(Answer answer);
  ~RawPeer();

  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  uint16_t port() const { return port_; }
  size_t connections() const;
  // Sends bytes that nobody asked for; blocks while the other side does not read. False: the connection has ended.
  bool SendTo(size_t connection, const std::string& bytes);

 private:
  void Accept();
  void Serve(size_t connection, int fd);

  const Answer answer_;
  uint16_t port_ = 0;
  int listener_ = -1;

  mutable std::mutex mutex_;  // Guards what follows.
  std::vector<int> fds_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;

  std::thread acceptor_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_RAW_PEER_H_
