#ifndef STOCKADE_TESTS_REDIS_CLUSTER_ANSWERS_H_
#define STOCKADE_TESTS_REDIS_CLUSTER_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "key_slot.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

inline std::string BulkString(std::string_view text) {
  return base_internal::Concat("$", text.size(), "\r\n", text, "\r\n");
}

// What a healthy node of a cluster answers to the client's own questions. Nothing for the commands of users, and for
// CLUSTER SLOTS.
inline std::optional<std::string> AnswerOfNode(std::string_view words) {
  if (words == "PING") return "+PONG\r\n";
  if (words.starts_with("CLIENT SETNAME ")) return "+OK\r\n";
  if (words == "INFO server") return BulkString("run_id:abc\r\n");
  if (words == "CLUSTER INFO") return "+cluster_state:ok\r\n";
  if (words == "PUBSUB SHARDNUMSUB") return "*0\r\n";
  if (words == "READONLY" || words == "ASKING") return "+OK\r\n";
  return std::nullopt;
}

// The answer to CLUSTER SLOTS of masters with equal shares of the slots, each with `replicas` of its own.
inline std::string SlotsOf(const std::vector<std::string>& masters, uint16_t port,
                           const std::vector<std::string>& replicas = {}) {
  using base_internal::Concat;
  const auto node = [port](const std::string& host) { return Concat("*2\r\n", BulkString(host), ":", port, "\r\n"); };
  const size_t width = redis_internal::kKeySlots / masters.size();
  std::string answer = Concat("*", masters.size(), "\r\n");
  for (size_t i = 0; i < masters.size(); ++i) {
    const size_t last = i + 1 == masters.size() ? redis_internal::kKeySlots - size_t{1} : (i + 1) * width - 1;
    const bool has_replica = i < replicas.size();
    answer += Concat("*", has_replica ? 4 : 3, "\r\n:", i * width, "\r\n:", last, "\r\n", node(masters[i]));
    if (has_replica) answer += node(replicas[i]);
  }
  return answer;
}

// Keys, each with a slot of its own: the first `count` of any.
inline std::vector<std::string> KeysOfSlots(size_t count) {
  std::vector<bool> taken(redis_internal::kKeySlots, false);
  std::vector<std::string> keys;
  for (size_t i = 0; keys.size() < count; ++i) {
    std::string key = base_internal::Concat("k", i);
    const uint16_t slot = redis_internal::KeySlot(key);
    if (!taken[slot]) keys.push_back(std::move(key));
    taken[slot] = true;
  }
  return keys;
}

// A key of each share of SlotsOf().
inline std::vector<std::string> KeysOfShares(size_t shares) {
  const size_t width = redis_internal::kKeySlots / shares;
  std::vector<std::string> keys(shares);
  size_t missing = shares;
  for (size_t i = 0; missing > 0; ++i) {
    std::string key = base_internal::Concat("k", i);
    const size_t share = redis_internal::KeySlot(key) / width;
    if (share >= shares || !keys[share].empty()) continue;
    keys[share] = std::move(key);
    --missing;
  }
  return keys;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_CLUSTER_ANSWERS_H_
