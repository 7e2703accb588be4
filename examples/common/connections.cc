#include "common/connections.h"

#include <sys/socket.h>

namespace examples {

void Connections::Accept() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return accepted_ < most_ || stopping_; });
  ++accepted_;
  MakeRoom();
}

bool Connections::Open(int fd) {
  const std::lock_guard lock(mutex_);
  if (!stopping_) open_.insert(fd);
  return !stopping_;
}

void Connections::Close(int fd) {
  const std::lock_guard lock(mutex_);
  open_.erase(fd);
  shut_down_.erase(fd);
  --accepted_;
  changed_.notify_one();
}

void Connections::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  changed_.notify_all();
}

uint64_t Connections::NextTurn() {
  const std::lock_guard lock(mutex_);
  return ++turns_;
}

void Connections::MakeRoom() {
  while (accepted_ - shut_down_.size() > threads_ && !waiting_.empty()) {
    const auto longest = waiting_.begin();
    shutdown(longest->second, SHUT_RDWR);  // Ends its poll(2); its thread does the rest.
    shut_down_.insert(longest->second);
    waiting_.erase(longest);
  }
}

Connections::Wait::Wait(Connections& connections, uint64_t turn, int fd) : connections_(connections), turn_(turn) {
  const std::lock_guard lock(connections_.mutex_);
  if (connections_.shut_down_.contains(fd)) return;
  connections_.waiting_.emplace(turn, fd);
  connections_.MakeRoom();
}

Connections::Wait::~Wait() {
  const std::lock_guard lock(connections_.mutex_);
  connections_.waiting_.erase(turn_);
}

}  // namespace examples
