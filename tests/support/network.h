#ifndef STOCKADE_TESTS_SUPPORT_NETWORK_H_
#define STOCKADE_TESTS_SUPPORT_NETWORK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/needs_program.h"

// For SetUp() or a test's body, before the first network.
#define STOCKADE_NEEDS_NETWORK()                                                                               \
  STOCKADE_NEEDS(::stockade::testing::Network::Available(), "the right to make network namespaces, ip or nft", \
                 "iproute2 or nftables, and root")

namespace stockade::testing {

// A network namespace, which lives as long as something has it: copies of this, processes, threads and sockets in it.
class NetworkHost {
 public:
  // The one of this program.
  NetworkHost() = default;

  // By which it is reached; it has 127.0.0.1 to itself as well.
  const std::string& address() const { return address_; }

  // The calling thread is on the host until the object ends, and so are the threads and processes that it starts and
  // the sockets that it opens meanwhile, for ever. Scopes nest.
  class Scope {
   public:
    explicit Scope(int host);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    int before_ = -1;
  };
  [[nodiscard]] Scope Enter() const { return Scope(space_ == nullptr ? -1 : *space_); }

 private:
  friend class Network;
  // Nothing where that cannot be had.
  static std::optional<NetworkHost> New(std::string address);
  // For a path that another program can open.
  std::string path() const;

  std::shared_ptr<const int> space_;  // An open file. Null: this program's.
  std::string address_ = "127.0.0.1";
};

// Hosts, and a router between them that passes all packets but those that a test names. Servers and clients of the test
// are put on hosts by NetworkHost::Enter(). Nothing of it can be seen from outside of the test's program, and all is
// gone with it. One thread at a time changes it; host() is for all threads.
class Network {
 public:
  // Whether one can be made here: it makes one, once.
  static bool Available();

  // Blocks for some 20 ms per host.
  explicit Network(int hosts);

  int size() const { return static_cast<int>(hosts_.size()); }
  const NetworkHost& host(int i) const { return hosts_.at(static_cast<size_t>(i)); }

  // What `from` sends to `to` is lost from now on, without a sign of it. The other direction stays as it is.
  void Cut(int from, int to);
  // The same both ways between all hosts i of which the bits i of `sides` differ.
  void Split(uint64_t sides);
  // Connections between the two are reset as soon as one sends something, and new ones are refused.
  void Reset(int a, int b);
  // Everything passes again. What was lost is sent again when the senders' own timers say so.
  void Heal();

 private:
  // What it could not do; empty: nothing.
  std::string Make(int hosts);
  Network() = default;
  void Apply() const;

  NetworkHost router_;
  std::vector<NetworkHost> hosts_;
  std::set<std::pair<int, int>> cut_;
  std::set<std::pair<int, int>> reset_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_NETWORK_H_
