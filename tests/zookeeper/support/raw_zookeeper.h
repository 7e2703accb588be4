#ifndef STOCKADE_TESTS_ZOOKEEPER_SUPPORT_RAW_ZOOKEEPER_H_
#define STOCKADE_TESTS_ZOOKEEPER_SUPPORT_RAW_ZOOKEEPER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stockade::testing {

// A blocking session that looks at a server behind a client's back: it shares nothing with the client under test. What
// cannot be asked, for want of a server that answers within 20 seconds, is as if there were nothing. Not thread-safe.
class RawZooKeeper {
 public:
  // To 127.0.0.1.
  explicit RawZooKeeper(uint16_t port);
  ~RawZooKeeper();

  RawZooKeeper(const RawZooKeeper&) = delete;
  RawZooKeeper& operator=(const RawZooKeeper&) = delete;

  // Whether there is a session, with the server in a majority.
  bool connected() const { return connected_; }

  // Of the node; none where there is no such node.
  std::optional<std::vector<std::string>> Children(const std::string& path);
  std::optional<std::string> Data(const std::string& path);
  bool Exists(const std::string& path);
  // Whether it is there then, for everybody and without data or end.
  bool Create(const std::string& path);
  // Whether it is not there then.
  bool Delete(const std::string& path);
  // The node with all nodes below it; for "/" all nodes below it, except ZooKeeper's own.
  void DeleteTree(const std::string& path);
  // All nodes below it that have no children.
  std::vector<std::string> Leaves(const std::string& path);
  // Until this server knows of all that was written before.
  void Sync(const std::string& path);

 private:
  struct Reply {
    int32_t error = 0;
    std::string body = {};
  };
  void Send(std::string_view body);
  std::optional<std::string> Receive();
  std::optional<Reply> Call(int32_t type, std::string_view body);

  int fd_;
  bool connected_ = false;
  int32_t requests_ = 0;
};

// What a server answers to "srvr" and the like; empty where none does within 2 seconds.
std::string FourLetterWord(uint16_t port, std::string_view word);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_ZOOKEEPER_SUPPORT_RAW_ZOOKEEPER_H_
