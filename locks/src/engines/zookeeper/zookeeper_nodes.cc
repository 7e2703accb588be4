#include "zookeeper_nodes.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "stockade/base/percent_coding.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

constexpr std::pair<char, LockKind> kLetters[] = {
    {'x', LockKind::kReentrant}, {'f', LockKind::kFair}, {'r', LockKind::kRead}, {'w', LockKind::kWrite}};

// Nodes of one lock are of one of these.
LockKind Family(LockKind kind) { return kind == LockKind::kWrite ? LockKind::kRead : kind; }

bool Excludes(LockKind first, LockKind second) { return first != LockKind::kRead || second != LockKind::kRead; }

// `sequence`: of one that is there. Nothing that is not before it counts, its owner's read at the same place included.
QueuePlace Place(std::span<const std::string> children, LockKind kind, std::optional<int32_t> sequence) {
  QueuePlace place;
  std::optional<int32_t> last;
  for (const std::string& child : children) {
    const std::optional<QueueNode> other = ParseNode(child);
    if (!other || (sequence && !SequenceBefore(other->sequence, *sequence))) continue;
    place.other_kind |= Family(other->kind) != Family(kind);
    if (!Excludes(other->kind, kind) || (last && SequenceBefore(other->sequence, *last))) continue;
    last = other->sequence;
    place.waits_for = child;
  }
  return place;
}

}  // namespace

std::string LockNode(std::string_view lock) {
  std::string node = PercentEncode(lock);
  if (node.front() == '.') node.replace(0, 1, "%2E");  // "." and ".." are no nodes.
  return node;
}

std::vector<std::string> ParentsOf(std::string_view path) {
  std::vector<std::string> parents;
  for (size_t end = path.find('/', 1); end != std::string_view::npos; end = path.find('/', end + 1)) {
    parents.emplace_back(path.substr(0, end));
  }
  return parents;
}

std::string NodePrefix(std::string_view client, uint64_t attempt, LockKind kind) {
  char letter = 'x';
  for (const auto& [known, of] : kLetters) {
    if (of == kind) letter = known;
  }
  return Concat(client, "-", attempt, "-", std::string_view(&letter, 1), "-");
}

std::string NestedName(std::string_view prefix, std::string_view write) {
  const std::optional<QueueNode> node = ParseNode(write);
  return Concat(prefix, node ? node->digits : std::string_view());
}

std::optional<QueueNode> ParseNode(std::string_view name) {
  // A sequence may have a '-' of its own, so fields are counted from the front.
  const size_t attempt = name.find('-');
  if (attempt == std::string_view::npos) return std::nullopt;
  const size_t letter = name.find('-', attempt + 1);
  if (letter == std::string_view::npos || name.size() < letter + 4 || name[letter + 2] != '-') return std::nullopt;
  QueueNode node = {.digits = name.substr(letter + 3)};
  if (!absl::SimpleAtoi(AbslView(node.digits), &node.sequence)) return std::nullopt;
  for (const auto& [known, kind] : kLetters) {
    if (known != name[letter + 1]) continue;
    node.kind = kind;
    return node;
  }
  return std::nullopt;
}

bool SequenceBefore(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b)) < 0;
}

QueuePlace PlaceOf(std::span<const std::string> children, std::string_view node) {
  const std::optional<QueueNode> own = ParseNode(node);
  if (!own || FindByPrefix(children, node) != node) return {};
  QueuePlace place = Place(children, own->kind, own->sequence);
  place.there = true;
  return place;
}

QueuePlace PlaceAtEnd(std::span<const std::string> children, LockKind kind) {
  return Place(children, kind, std::nullopt);
}

std::vector<std::string> NodesThatAreIn(std::span<const std::string> children) {
  std::optional<QueueNode> first;
  std::optional<QueueNode> first_excluder;  // Of readers.
  const auto note = [](std::optional<QueueNode>& earliest, const QueueNode& node) {
    if (!earliest || SequenceBefore(node.sequence, earliest->sequence)) earliest = node;
  };
  for (const std::string& child : children) {
    const std::optional<QueueNode> node = ParseNode(child);
    if (!node) continue;
    note(first, *node);
    if (node->kind != LockKind::kRead) note(first_excluder, *node);
  }
  std::vector<std::string> in;
  for (const std::string& child : children) {
    const std::optional<QueueNode> node = ParseNode(child);
    if (!node) continue;
    const std::optional<QueueNode>& keeps_out = node->kind == LockKind::kRead ? first_excluder : first;
    if (!keeps_out || !SequenceBefore(keeps_out->sequence, node->sequence)) in.push_back(child);
  }
  return in;
}

LockKind KindOf(std::span<const std::string> in) {
  LockKind kind = LockKind::kReentrant;
  for (const std::string& name : in) {
    const std::optional<QueueNode> node = ParseNode(name);
    if (!node) continue;
    kind = node->kind;
    if (kind == LockKind::kWrite) break;
  }
  return kind;
}

std::optional<std::string> FindByPrefix(std::span<const std::string> children, std::string_view prefix) {
  for (const std::string& child : children) {
    if (child.starts_with(prefix)) return child;
  }
  return std::nullopt;
}

}  // namespace stockade::locks_internal
