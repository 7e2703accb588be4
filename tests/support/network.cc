#include "support/network.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/subprocess.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;
using ::stockade::base_internal::Fatal;

namespace {

constexpr char kThisThreads[] = "/proc/thread-self/ns/net";

// An open file of a new namespace, or -1.
int NewNamespace() {
  int file = -1;
  std::thread([&file] {
    if (unshare(CLONE_NEWNET) == 0) file = open(kThisThreads, O_RDONLY | O_CLOEXEC);
  }).join();
  return file;
}

bool Runs(const std::vector<std::string>& argv, const std::string& input) { return RunToEnd(argv, input).status == 0; }

bool Ip(const std::string& commands) { return Runs({"ip", "-batch", "-"}, commands); }

// Host i has a net of four addresses, of which the router has the first.
std::string RouterOf(int i) { return Concat("10.77.", i + 1, ".1"); }
std::string AddressOf(int i) { return Concat("10.77.", i + 1, ".2"); }

}  // namespace

NetworkHost::Scope::Scope(int host) {
  if (host < 0) return;
  before_ = open(kThisThreads, O_RDONLY | O_CLOEXEC);
  if (before_ < 0 || setns(host, CLONE_NEWNET) != 0) Fatal("cannot enter a network namespace");
}

NetworkHost::Scope::~Scope() {
  if (before_ < 0) return;
  if (setns(before_, CLONE_NEWNET) != 0) Fatal("cannot leave a network namespace");
  close(before_);
}

std::optional<NetworkHost> NetworkHost::New(std::string address) {
  NetworkHost host;
  const int file = NewNamespace();
  if (file < 0) return std::nullopt;
  host.space_ = std::shared_ptr<const int>(new int(file), [](const int* open_file) {
    close(*open_file);
    delete open_file;
  });
  host.address_ = std::move(address);
  const Scope in = host.Enter();
  if (!Ip("link set lo up\n")) return std::nullopt;
  return host;
}

std::string NetworkHost::path() const { return Concat("/proc/", getpid(), "/fd/", *space_); }

bool Network::Available() {
  static const bool available = InPath("ip") && InPath("nft") && Network().Make(1).empty();
  return available;
}

Network::Network(int hosts) {
  const std::string missing = Make(hosts);
  if (!missing.empty()) Fatal(Concat("no network of hosts: cannot make ", missing));
}

std::string Network::Make(int hosts) {
  std::optional<NetworkHost> router = NetworkHost::New("");
  if (!router) return "a namespace";
  router_ = *std::move(router);
  for (int i = 0; i < hosts; ++i) {
    std::optional<NetworkHost> host = NetworkHost::New(AddressOf(i));
    if (!host) return "a namespace";
    hosts_.push_back(*std::move(host));
    {
      const NetworkHost::Scope in = router_.Enter();
      if (!Ip(Concat("link add h", i, " type veth peer name wire netns ", hosts_.back().path(), "\naddr add ",
                     RouterOf(i), "/30 dev h", i, "\nlink set h", i, " up\n"))) {
        return "a pair of interfaces";
      }
    }
    const NetworkHost::Scope in = hosts_.back().Enter();
    if (!Ip(Concat("addr add ", AddressOf(i), "/30 dev wire\nlink set wire up\nroute add default via ", RouterOf(i),
                   "\n"))) {
      return "an address";
    }
  }
  const NetworkHost::Scope in = router_.Enter();
  const int forward = open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC);
  const bool forwards = write(forward, "1", 1) == 1;
  close(forward);
  if (!forwards) return "a router";
  const bool filters = Runs({"nft", "-f", "-"},
                            "table ip wire {\n"
                            "  chain cuts {\n"
                            "    type filter hook forward priority 0; policy accept;\n"
                            "  }\n"
                            "}\n");
  return filters ? "" : "a table of nftables";
}

void Network::Cut(int from, int to) {
  cut_.emplace(from, to);
  Apply();
}

void Network::Split(uint64_t sides) {
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      if ((sides >> from & 1) != (sides >> to & 1)) cut_.emplace(from, to);
    }
  }
  Apply();
}

void Network::Reset(int a, int b) {
  reset_.emplace(a, b);
  reset_.emplace(b, a);
  Apply();
}

void Network::Heal() {
  cut_.clear();
  reset_.clear();
  Apply();
}

// All rules at once, so that no packet sees a half of them.
void Network::Apply() const {
  std::string rules = "flush chain ip wire cuts\n";
  const auto add = [&](const std::pair<int, int>& way, std::string_view verdict) {
    rules += Concat("add rule ip wire cuts ip protocol tcp ip saddr ", AddressOf(way.first), " ip daddr ",
                    AddressOf(way.second), " ", verdict, "\n");
  };
  for (const auto& way : cut_) add(way, "drop");
  for (const auto& way : reset_) add(way, "reject with tcp reset");
  const NetworkHost::Scope in = router_.Enter();
  if (!Runs({"nft", "-f", "-"}, rules)) Fatal("nft refuses: " + rules);
}

}  // namespace stockade::testing
