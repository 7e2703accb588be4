#include "redis/support/hostile_node.h"

#include <algorithm>
#include <iterator>

#include "stockade/base/strings.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;

std::string Bulk(std::string_view text) { return Concat("$", text.size(), "\r\n", text, "\r\n"); }

// What Redis answers to (S|P)(UN)SUBSCRIBE, for each channel.
std::string Subscribed(std::string_view words) {
  const size_t space = words.find(' ');
  std::string kind(words.substr(0, space));
  std::transform(kind.begin(), kind.end(), kind.begin(), [](char c) { return static_cast<char>(c | 0x20); });
  std::string answer;
  for (size_t at = space; at < words.size();) {
    const size_t end = std::min(words.find(' ', at + 1), words.size());
    answer += Concat("*3\r\n", Bulk(kind), Bulk(words.substr(at + 1, end - at - 1)), ":1\r\n");
    at = end;
  }
  return answer;
}

}  // namespace

HostileNode::HostileNode(uint64_t seed)
    : random_(seed),
      good_(40 + random_() % 55),
      peers_([this](const LoopbackPeers::Command& command) { return Answer(command); }) {}

std::string HostileNode::url() const { return Concat("redis+cluster://127.0.0.1:", peers_.port()); }

std::optional<std::string> HostileNode::Answer(const LoopbackPeers::Command& command) {
  // Hosts that it has named are silent more often.
  if (command.host != "127.0.0.1" && command.connection % 3 == 0) return "";
  if (Below(100) < good_) return GoodAnswer(command.words);
  if (OneIn(12)) return std::nullopt;
  return BadAnswer(command.words);
}

std::string HostileNode::GoodAnswer(std::string_view words) {
  if (words == "PING") return "+PONG\r\n";
  if (words.starts_with("INFO")) return Bulk(Concat("run_id:", OneIn(9) ? "?" : "abc", Below(4), "\r\n"));
  if (words == "CLUSTER INFO") return OneIn(4) ? "+cluster_state:fail\r\n" : "+cluster_state:ok\r\n";
  if (words == "CLUSTER SLOTS") return Map();
  if (words.starts_with("PUBSUB")) return OneIn(5) ? "-ERR unknown subcommand\r\n" : "*0\r\n";
  if (words.find("SUBSCRIBE") != std::string_view::npos) return Subscribed(words);
  if (words.starts_with("CLIENT SETNAME ")) return OneIn(5) ? "-ERR unknown subcommand\r\n" : "+OK\r\n";
  if (words == "MULTI" || words == "ASKING" || words == "READONLY" || words.starts_with("SET ")) return "+OK\r\n";
  // Without a state of transactions: half of their replies are those of commands.
  if (words == "EXEC") return OneIn(2) ? "*0\r\n" : "*1\r\n+OK\r\n";
  return OneIn(3) ? Error() : Value();
}

std::string HostileNode::BadAnswer(std::string_view words) {
  std::string answer = GoodAnswer(words);
  switch (Below(12)) {
    case 0: return "";
    case 1: return answer.substr(0, Below(answer.size() + 1));
    case 2: answer[Below(answer.size())] = static_cast<char>(random_()); return answer;
    case 3: return answer + Value();
    case 4: return Concat("$", random_(), "\r\n");
    case 5: return Concat("*", random_() % 100'000'000, "\r\n:1\r\n");
    case 6: {
      std::string nested;
      for (uint64_t depth = Below(2000); depth > 0; --depth) nested += "*1\r\n";
      return nested + ":1\r\n";
    }
    case 7: return Map();
    case 8: return "\x15\x03\x01";
    case 9: {
      std::string noise(Below(300), '\0');
      std::generate(noise.begin(), noise.end(), [this] { return static_cast<char>(random_()); });
      return noise;
    }
    case 10: return Value();
    default: return Error();
  }
}

std::string HostileNode::Map() {
  const uint64_t ranges = OneIn(4) ? 1 + Below(3000) : 1 + Below(40);
  const uint64_t width = 16'384 / ranges;
  std::string map = Concat("*", ranges, "\r\n");
  for (uint64_t i = 0; i < ranges; ++i) {
    const uint64_t nodes = 1 + (OneIn(3) ? Below(4) : 0);
    const uint64_t last = OneIn(5000) ? 20'000 : std::min<uint64_t>(i * width + width - 1, 16'383);
    map += Concat("*", nodes + 2, "\r\n:", i * width, "\r\n:", last, "\r\n");
    for (uint64_t n = 0; n < nodes; ++n) map += Node();
  }
  return map;
}

std::string HostileNode::Node() {
  if (OneIn(3000)) return "*2\r\n$3\r\na b\r\n:1\r\n";
  return Concat("*3\r\n", OneIn(20) ? "$-1\r\n" : Bulk(Host()), ":", OneIn(50) ? 0 : peers_.port(), "\r\n$2\r\nid\r\n");
}

std::string HostileNode::Host() {
  switch (Below(8)) {
    case 0: return "127.0.0.1";
    case 1: return Concat("x", next_host_++, ".slow.test");
    case 2: return OneIn(4) ? "?" : "127.0.0.1";
    // One that it has named already.
    case 3: return LoopbackPeers::Host(static_cast<uint32_t>(Below(next_host_ + 1)));
    default: return LoopbackPeers::Host(next_host_++);
  }
}

std::string HostileNode::Error() {
  static constexpr std::string_view kErrors[] = {
      "CLUSTERDOWN The cluster is down",
      "TRYAGAIN Multiple keys request during rehashing of slot",
      "LOADING Redis is loading the dataset in memory",
      "READONLY You can't write against a read only replica.",
      "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
      "NOSCRIPT No matching script. Please use EVAL.",
      "BUSY Redis is busy running a script.",
      "EXECABORT Transaction discarded because of previous errors.",
      "NOAUTH Authentication required.",
      "MOVED",
      "ASK 1 ?:1",
      "MOVED 99999 127.0.0.1:1",
      "ERR",
      "",
  };
  if (OneIn(2)) {
    return Concat(OneIn(2) ? "-MOVED " : "-ASK ", Below(16'384), " ", Host(), ":", peers_.port(), "\r\n");
  }
  return Concat("-", kErrors[Below(std::size(kErrors))], "\r\n");
}

std::string HostileNode::Value() {
  switch (Below(6)) {
    case 0: return "+OK\r\n";
    case 1: return Concat(":", static_cast<int64_t>(random_()), "\r\n");
    case 2: return "$-1\r\n";
    case 3: return "*-1\r\n";
    case 4: return Concat("*2\r\n", Bulk("a"), ":", Below(9), "\r\n");
    default: return Bulk(std::string(Below(100), 'v'));
  }
}

}  // namespace stockade::testing
