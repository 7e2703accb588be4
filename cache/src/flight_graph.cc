#include "stockade/cache/internal/flight_graph.h"

#include <algorithm>
#include <mutex>

namespace stockade::internal {
namespace {

// Never destroyed: caches may live as long as the process.
std::mutex& GraphMutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}

constinit thread_local LoaderFrame* innermost = nullptr;

}  // namespace

void FlightNode::BlockBy(const FlightNode* first, const FlightNode* second) {
  std::lock_guard lock(GraphMutex());
  blocked_by_ = {first, second};
}

void FlightNode::Unblock() {
  std::lock_guard lock(GraphMutex());
  blocked_by_ = {};
}

void FlightNode::RunWithin(const FlightNode* batch) {
  std::lock_guard lock(GraphMutex());
  waits_for_ = batch;
}

// Ends, since there is no circle yet. As deep as loads nest.
bool FlightNode::Reaches(const FlightNode* target, std::vector<const FlightNode*>& path) const {
  const auto reaches = [&](const FlightNode* next) { return next != nullptr && next->Reaches(target, path); };
  if (this != target && !reaches(waits_for_) && !std::any_of(blocked_by_.begin(), blocked_by_.end(), reaches)) {
    return false;
  }
  path.push_back(this);
  return true;
}

// An edge to a flight that begins to run closes no circle: it has no edge of its own yet.
LoaderFrame::LoaderFrame(FlightNode* flight) : flight_(flight), outer_(innermost) {
  innermost = this;
  if (outer_ == nullptr) return;
  std::lock_guard lock(GraphMutex());
  outer_->flight_->waits_for_ = flight;
}

LoaderFrame::~LoaderFrame() {
  innermost = outer_;
  if (outer_ == nullptr) return;
  std::lock_guard lock(GraphMutex());
  outer_->flight_->waits_for_ = nullptr;
}

const LoaderFrame* LoaderFrame::Innermost() { return innermost; }

bool FlightWait::TryBegin(const FlightNode* target, std::string& circle) {
  if (innermost == nullptr) return true;
  FlightNode* const waiter = innermost->flight();
  std::vector<const FlightNode*> path;
  std::lock_guard lock(GraphMutex());
  if (target->Reaches(waiter, path)) {
    // With the mutex held: it keeps the nodes.
    circle = waiter->Text();
    for (auto node = path.rbegin(); node != path.rend(); ++node) circle += " -> " + (*node)->Text();
    return false;
  }
  waiter->waits_for_ = target;
  waiter_ = waiter;
  return true;
}

void FlightWait::End() {
  if (waiter_ == nullptr) return;
  std::lock_guard lock(GraphMutex());
  waiter_->waits_for_ = nullptr;
  waiter_ = nullptr;
}

}  // namespace stockade::internal
