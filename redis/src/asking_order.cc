#include "asking_order.h"

#include <algorithm>
#include <utility>

namespace stockade::redis_internal {
namespace {

bool Contains(std::span<const RedisEndpoint> servers, const RedisEndpoint& server) {
  return std::find(servers.begin(), servers.end(), server) != servers.end();
}

}  // namespace

AskingOrder::AskingOrder(std::vector<RedisEndpoint> given) : given_(std::move(given)) {
  for (const RedisEndpoint& server : given_) {
    if (!Contains(order_, server)) order_.push_back(server);
  }
}

std::vector<RedisEndpoint> AskingOrder::Get() const {
  const MutexLock lock(mutex_);
  return order_;
}

void AskingOrder::Answered(const RedisEndpoint& server, std::span<const RedisEndpoint> others) {
  others = others.first(std::min(others.size(), kMaxLearnt - 1));
  std::vector<RedisEndpoint> order = {server};
  const MutexLock lock(mutex_);
  for (const RedisEndpoint& known : order_) {
    if (known != server && (Contains(given_, known) || Contains(others, known))) order.push_back(known);
  }
  for (const RedisEndpoint& other : others) {
    if (!Contains(order, other)) order.push_back(other);
  }
  order_ = std::move(order);
}

void AskingOrder::Failed(const RedisEndpoint& server) {
  const MutexLock lock(mutex_);
  const auto at = std::find(order_.begin(), order_.end(), server);
  if (at != order_.end()) std::rotate(at, at + 1, order_.end());
}

void AskingOrder::Prefer(const RedisEndpoint& server) {
  const MutexLock lock(mutex_);
  const auto at = std::find(order_.begin(), order_.end(), server);
  if (at != order_.end()) std::rotate(order_.begin(), at, at + 1);
}

Instant EndOfTurn(Instant now, Instant deadline, size_t left) {
  constexpr size_t kMostTurns = 3;  // However many there are, each gets enough time for a network to answer.
  return now + (deadline - now) / static_cast<double>(std::min(left, kMostTurns) + 1);
}

}  // namespace stockade::redis_internal
