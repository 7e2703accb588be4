#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_SITE_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_SITE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "locks/distributed/support/lock_deployment.h"
#include "support/network.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {

// The servers of an engine, each on a host of its own: the first ones of a network. Nothing that they have confirmed is
// forgotten when one is killed.
struct LockSite {
  struct Server {
    std::function<void()> kill;
    std::function<void()> restart;
    std::function<void()> pause;
    std::function<void()> resume;
  };

  std::string url;  // By way of the proxies.
  std::vector<Server> servers;
  // Before the servers, on their hosts; none with Sentinels, which name servers to the clients.
  std::vector<std::unique_ptr<TcpProxy>> proxies;
  std::function<void()> await_settled;  // All servers run, and reach each other.
  std::function<size_t()> master;       // The number of the server that has it all.
  std::shared_ptr<void> owner;          // Of the servers.

  static int HostsOf(LockSetup setup);
  static std::unique_ptr<LockSite> On(const Network& network, LockSetup setup);
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_LOCK_SITE_H_
