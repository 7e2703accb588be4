#include "stockade/cache/internal/s3_fifo.h"

#include <algorithm>

namespace stockade::cache_internal {
void S3Fifo::Insert(S3FifoNode& node) {
  node.uses.store(0, std::memory_order_relaxed);
  const auto ghost = ghosts_.Take(node.hash, GhostRooms());
  if (ghost.has_value()) Regret(*ghost);
  Link(node, ghost.has_value());
}

void S3Fifo::Replace(S3FifoNode& old, S3FifoNode& fresh) {
  fresh.uses.store(old.uses.load(std::memory_order_relaxed), std::memory_order_relaxed);
  fresh.in_main = old.in_main;
  fresh.newer = old.newer;
  fresh.older = old.older;
  fresh.newer->older = &fresh;
  fresh.older->newer = &fresh;
  QueueOf(fresh).weight += fresh.weight - old.weight;
  old.newer = old.older = nullptr;
}

void S3Fifo::Remove(S3FifoNode& node) { Unlink(node); }

S3FifoNode* S3Fifo::Evict(const S3FifoNode* spared) {
  for (size_t steps = 0;;) {
    Queue& queue = QueueToEvictFrom(spared);
    S3FifoNode* node = queue.Oldest();
    if (node == spared) node = node->newer;
    if (node == &queue.ends) return nullptr;
    const bool in_main = node->in_main;
    Unlink(*node);
    const uint8_t uses = node->uses.load(std::memory_order_relaxed);
    if (uses > 0 && steps++ < kMostSteps) {
      node->uses.store(in_main && !restless() ? uses - 1 : 0, std::memory_order_relaxed);
      Link(*node, in_main || uses > 1 || !restless());
      continue;
    }
    ghosts_.Remember(node->hash, in_main ? GhostTable::Queue::kMain : GhostTable::Queue::kSmall, GhostRooms());
    return node;
  }
}

S3FifoNode* S3Fifo::Any() {
  if (size() == 0) return nullptr;
  return (small_.size > 0 ? small_ : main_).Oldest();
}

// As the newest.
void S3Fifo::Link(S3FifoNode& node, bool in_main) {
  node.in_main = in_main;
  Queue& queue = QueueOf(node);
  node.newer = &queue.ends;
  node.older = queue.ends.older;
  node.newer->older = &node;
  node.older->newer = &node;
  ++queue.size;
  queue.weight += node.weight;
}

void S3Fifo::Unlink(S3FifoNode& node) {
  Queue& queue = QueueOf(node);
  node.newer->older = node.older;
  node.older->newer = node.newer;
  node.newer = node.older = nullptr;
  --queue.size;
  queue.weight -= node.weight;
}

// The one whose turn it is, where it holds another node than `spared`, else the other.
S3Fifo::Queue& S3Fifo::QueueToEvictFrom(const S3FifoNode* spared) {
  const bool small_has = small_.Oldest() != &small_.ends && (small_.size > 1 || small_.Oldest() != spared);
  const bool main_has = main_.Oldest() != &main_.ends && (main_.size > 1 || main_.Oldest() != spared);
  const bool small_is_due = static_cast<double>(small_.weight) > small_share_ * static_cast<double>(weight());
  return small_has && (small_is_due || !main_has) ? small_ : main_;
}

GhostTable::Rooms S3Fifo::GhostRooms() const {
  const auto entries = static_cast<double>(std::min(size(), kMostGhosts));
  return {.small = static_cast<uint32_t>(std::max(1.0, kSmallGhosts * entries)),
          .main = static_cast<uint32_t>(std::max(1.0, kWindow * entries))};
}

// Moves the share towards the queue that a node which comes back was evicted from, within the window.
void S3Fifo::Regret(const GhostTable::Ghost& ghost) {
  const double entries = static_cast<double>(std::max<size_t>(size(), 1));
  if (ghost.age >= std::max(1.0, kWindow * entries)) return;
  const double step = ghost.queue == GhostTable::Queue::kSmall ? kSmallStep : -kMainStep;
  small_share_ = std::clamp(small_share_ + step / entries, kLeastShare, kMostShare);
}

}  // namespace stockade::cache_internal
