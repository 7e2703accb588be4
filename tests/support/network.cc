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

void MustRun(const std::vector<std::string>& argv, const std::string& input) {
  const RunResult result = RunToEnd(argv, input);
  if (result.status != 0) Fatal(Concat(argv[0], ": ", result.err, "of\n", input));
}

void Ip(const std::string& commands) { MustRun({"ip", "-batch", "-"}, commands); }

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

NetworkHost NetworkHost::New(std::string address) {
  NetworkHost host;
  const int file = NewNamespace();
  if (file < 0) Fatal("cannot make a network namespace");
  host.space_ = std::shared_ptr<const int>(new int(file), [](const int* open_file) {
    close(*open_file);
    delete open_file;
  });
  host.address_ = std::move(address);
  const Scope in = host.Enter();
  Ip("link set lo up\n");
  return host;
}

std::string NetworkHost::path() const { return Concat("/proc/", getpid(), "/fd/", *space_); }

bool Network::Available() {
  if (!InPath("ip") || !InPath("nft")) return false;
  const int file = NewNamespace();
  if (file >= 0) close(file);
  return file >= 0;
}

Network::Network(int hosts) : router_(NetworkHost::New("")) {
  for (int i = 0; i < hosts; ++i) {
    hosts_.push_back(NetworkHost::New(AddressOf(i)));
    {
      const NetworkHost::Scope in = router_.Enter();
      Ip(Concat("link add h", i, " type veth peer name wire netns ", hosts_.back().path(), "\naddr add ", RouterOf(i),
                "/30 dev h", i, "\nlink set h", i, " up\n"));
    }
    const NetworkHost::Scope in = hosts_.back().Enter();
    Ip(Concat("addr add ", AddressOf(i), "/30 dev wire\nlink set wire up\nroute add default via ", RouterOf(i), "\n"));
  }
  const NetworkHost::Scope in = router_.Enter();
  const int forward = open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC);
  if (write(forward, "1", 1) != 1) Fatal("cannot make a router");
  close(forward);
  MustRun({"nft", "-f", "-"},
          "table ip wire {\n"
          "  chain cuts {\n"
          "    type filter hook forward priority 0; policy accept;\n"
          "  }\n"
          "}\n");
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
  MustRun({"nft", "-f", "-"}, rules);
}

}  // namespace stockade::testing
