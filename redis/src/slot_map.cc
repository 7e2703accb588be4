#include "slot_map.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "host_name.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

constexpr std::string_view kUnknownHost = "?";  // Hosts are to be given by name, and this one's is not known.

absl::Status NotASlotMap(std::string_view what, const RedisReply& reply) {
  return absl::FailedPreconditionError(Concat("CLUSTER SLOTS: ", what, ": ", reply.ToString()));
}

// The address in what follows a node's host, port and id: names and values.
std::string_view AddressOf(std::span<const RedisReply> node) {
  if (node.size() < 4) return {};
  const std::span<const RedisReply> fields = node[3].elements();
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (fields[i].text() == "ip") return fields[i + 1].text();
  }
  return {};
}

// Nothing: its address is not known.
absl::StatusOr<std::optional<RedisEndpoint>> NodeOf(const RedisReply& reply, const RedisEndpoint& asked) {
  const std::span<const RedisReply> parts = reply.elements();
  if (parts.size() < 2 || parts[1].kind() != RedisReply::Kind::kInteger) return NotASlotMap("not a node", reply);
  const int64_t port = parts[1].integer();
  std::string_view host = parts[0].text();
  if (host == kUnknownHost) host = AddressOf(parts);
  // Port 0: it listens for TLS only.
  if ((host.empty() && parts[0].text() == kUnknownHost) || port < 1 || port > 0xFFFF) return std::nullopt;
  if (!host.empty() && !IsHostName(host)) return NotASlotMap("not a host name", reply);
  return RedisEndpoint{.host = std::string(host.empty() ? asked.host : host), .port = static_cast<uint16_t>(port)};
}

}  // namespace

absl::StatusOr<SlotMap> SlotMap::Parse(const RedisReply& reply, const RedisEndpoint& asked) {
  if (reply.kind() != RedisReply::Kind::kArray) return NotASlotMap("not an array", reply);
  if (reply.elements().size() > kKeySlots) return NotASlotMap(Concat("more than ", kKeySlots, " ranges"), reply);
  SlotMap map;
  // The lists are long if a server wants to keep the client busy.
  std::map<std::pair<std::string, uint16_t>, uint16_t> masters;
  std::set<std::pair<std::string, uint16_t>> replicas;
  for (const RedisReply& range : reply.elements()) {
    const std::span<const RedisReply> parts = range.elements();
    if (parts.size() < 3) return NotASlotMap("not a range with a node", range);
    const int64_t first = parts[0].integer();
    const int64_t last = parts[1].integer();
    if (first < 0 || first > last || last >= kKeySlots) return NotASlotMap("no range of slots", range);
    const absl::StatusOr<std::optional<RedisEndpoint>> master = NodeOf(parts[2], asked);
    if (!master.ok()) return master.status();
    uint16_t owner = kNobody;
    if (*master) {
      const auto [at, is_new] =
          masters.try_emplace({(*master)->host, (*master)->port}, static_cast<uint16_t>(map.nodes_.size()));
      if (is_new && map.nodes_.size() == kMaxNodes) {
        return NotASlotMap(Concat("more than ", kMaxNodes, " nodes"), reply);
      }
      if (is_new) map.nodes_.push_back(**master);
      owner = at->second;
      std::fill(map.owners_.begin() + first, map.owners_.begin() + last + 1, owner);
      map.replicas_of_.resize(map.nodes_.size());
    }
    for (const RedisReply& part : parts.subspan(3)) {
      absl::StatusOr<std::optional<RedisEndpoint>> replica = NodeOf(part, asked);
      if (!replica.ok()) return replica.status();
      if (!*replica || replicas.size() == kMaxNodes) continue;
      if (!replicas.emplace((*replica)->host, (*replica)->port).second) continue;
      if (owner != kNobody) map.replicas_of_[owner].push_back(**replica);
      map.replicas_.push_back(**std::move(replica));
    }
  }
  if (map.nodes_.empty()) return NotASlotMap("no slot is served", reply);
  return map;
}

std::span<const RedisEndpoint> SlotMap::ReplicasOf(uint16_t node) const {
  if (node >= replicas_of_.size()) return {};
  return replicas_of_[node];
}

uint16_t SlotMap::Add(const RedisEndpoint& node) {
  const auto at = std::find(nodes_.begin(), nodes_.end(), node);
  if (at == nodes_.end() && nodes_.size() == kMaxNodes) return kNobody;
  const auto index = static_cast<uint16_t>(at - nodes_.begin());
  if (at == nodes_.end()) nodes_.push_back(node);
  return index;
}

bool SlotMap::SameOwners(const SlotMap& other) const {
  std::vector<uint16_t> there(nodes_.size(), kNobody);  // The index in `other` of each node.
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto at = std::find(other.nodes_.begin(), other.nodes_.end(), nodes_[i]);
    // Differs from every owner there is.
    there[i] = static_cast<uint16_t>(at - other.nodes_.begin());
  }
  for (size_t slot = 0; slot < kKeySlots; ++slot) {
    const uint16_t owner = owners_[slot];
    if ((owner == kNobody ? kNobody : there[owner]) != other.owners_[slot]) return false;
  }
  return true;
}

std::optional<Redirection> ParseRedirection(std::string_view error, const RedisEndpoint& asked) {
  const size_t slot_at = error.find(' ') + 1;
  const size_t place_at = error.find(' ', slot_at) + 1;
  if (slot_at == 0 || place_at == 0) return std::nullopt;
  const std::string_view slot = error.substr(slot_at, place_at - 1 - slot_at);
  const std::string_view place = error.substr(place_at);
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view host = place.substr(0, colon);
  const std::string_view port = place.substr(colon + 1);

  Redirection redirection{.slot = 0, .to = {.host = std::string(host.empty() ? asked.host : host)}};
  const auto reads = [](std::string_view digits, uint16_t& number) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  if (!reads(slot, redirection.slot) || redirection.slot >= kKeySlots) return std::nullopt;
  if (!reads(port, redirection.to.port) || redirection.to.port == 0) return std::nullopt;
  if (!host.empty() && !IsHostName(host)) return std::nullopt;  // Among others kUnknownHost.
  return redirection;
}

}  // namespace stockade::redis_internal
