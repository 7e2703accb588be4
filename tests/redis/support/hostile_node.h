#ifndef STOCKADE_TESTS_REDIS_SUPPORT_HOSTILE_NODE_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_HOSTILE_NODE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "redis/support/loopback_peers.h"

namespace stockade::testing {

// A node of a cluster that lies, damages its replies and falls silent, by a seed: it names masters without end, in
// redirections and in maps that are others each time, and is all of them itself. Some of the names are those of
// slow_names.h, whose source a program with this one needs.
class HostileNode {
 public:
  explicit HostileNode(uint64_t seed);

  std::string url() const;
  uint16_t port() const { return peers_.port(); }
  uint64_t accepted() const { return peers_.accepted(); }

 private:
  // All on the thread of peers_.
  std::optional<std::string> Answer(const LoopbackPeers::Command& command);
  std::string GoodAnswer(std::string_view words);
  std::string BadAnswer(std::string_view words);
  std::string Map();
  std::string Node();
  std::string Host();
  std::string Error();
  std::string Value();
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t count) { return Below(count) == 0; }

  std::mt19937_64 random_;
  const uint64_t good_;  // Of 100 answers.
  uint32_t next_host_ = 0;
  LoopbackPeers peers_;  // Last: its thread uses the others.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_HOSTILE_NODE_H_
