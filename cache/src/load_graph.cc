#include "load_graph.h"

#include <utility>

namespace stockade::cache_internal {

// Never destroyed: caches may live as long as the process.
Mutex& FlightNode::GraphMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

void FlightNode::BlockBy(const FlightNode* first, const FlightNode* second) {
  const MutexLock lock(GraphMutex());
  blocked_by_ = {first, second};
}

void FlightNode::Unblock() {
  const MutexLock lock(GraphMutex());
  blocked_by_ = {};
}

void FlightNode::SetBatch(const FlightNode* batch) {
  const MutexLock lock(GraphMutex());
  waits_for_ = batch;
}

// Ends, since there is no circle yet. As deep as loads nest.
bool FlightNode::Reaches(const FlightNode* target, std::vector<const FlightNode*>& path) const {
  bool reaches = this == target;
  for (const FlightNode* const next : {waits_for_, blocked_by_[0], blocked_by_[1]}) {
    reaches = reaches || (next != nullptr && next->Reaches(target, path));
  }
  if (reaches) path.push_back(this);
  return reaches;
}

// An edge to a flight that begins to run closes no circle: it has no edge of its own yet. The loader around it may have
// an edge already: it waits for just this flight, whose key another process of the tier was loading until now, and will
// wait on if that process still does.
void LoaderFrame::EnterOuter() {
  const MutexLock lock(FlightNode::GraphMutex());
  outer_waits_for_ = std::exchange(outer_->flight_->waits_for_, flight_);
}

void LoaderFrame::LeaveOuter() {
  const MutexLock lock(FlightNode::GraphMutex());
  outer_->flight_->waits_for_ = outer_waits_for_;
}

bool FlightWait::TryBegin(const FlightNode* target, std::string& circle) {
  if (LoaderFrame::Innermost() == nullptr) return true;
  FlightNode* const waiter = LoaderFrame::Innermost()->flight();
  std::vector<const FlightNode*> path;
  const MutexLock lock(FlightNode::GraphMutex());
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

void FlightWait::EndOfWaiter() {
  const MutexLock lock(FlightNode::GraphMutex());
  waiter_->waits_for_ = nullptr;
  waiter_ = nullptr;
}

}  // namespace stockade::cache_internal
