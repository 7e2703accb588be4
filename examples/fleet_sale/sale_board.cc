#include "sale_board.h"

#include <utility>

namespace fleet_sale {

void HalfBoard::Begin() {
  const std::lock_guard lock(mutex_);
  reading_ = {};
  course_ = {};
}

void HalfBoard::SetStage(Stage stage) {
  const std::lock_guard lock(mutex_);
  reading_.stage = stage;
}

void HalfBoard::Add(const Moment& moment) {
  const std::lock_guard lock(mutex_);
  course_.Add(moment);
}

void HalfBoard::Add(const Event& event) {
  const std::lock_guard lock(mutex_);
  reading_.events.push_back(event);
}

void HalfBoard::SetSegments(std::vector<Segment> segments) {
  const std::lock_guard lock(mutex_);
  reading_.segments = std::move(segments);
}

void HalfBoard::Judge(const Audit& audit) {
  const std::lock_guard lock(mutex_);
  reading_.stage = Stage::kDone;
  reading_.audit = audit;
}

HalfBoard::Reading HalfBoard::Read() const {
  const std::lock_guard lock(mutex_);
  Reading reading = reading_;
  reading.course = course_.moments();
  return reading;
}

}  // namespace fleet_sale
