#ifndef STOCKADE_CACHE_SRC_LOAD_GRAPH_H_
#define STOCKADE_CACHE_SRC_LOAD_GRAPH_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "stockade/base/mutex.h"

namespace stockade::cache_internal {

class SingleFlight;

// The waits between the flights of all caches of the process, which detect a deadlock between loads.
//
// Invariants: the edges form no cycle, because TryBegin() adds the only edges that could close one, and checks. The
// target of an edge outlives the edge: a waiter holds its flight, a flight is unblocked before its blockers leave the
// table of flights, and a batch releases its flights before it ends. One mutex of the process guards all edges. It is
// locked after a shard's mutex, and no mutex is locked after it. Only loads within loads, loads that wait for an older
// load of their key, batches, and flights that never begin, lock it.
class FlightNode {
 public:
  // `cache` distinguishes the flights of one cache from those of others.
  explicit FlightNode(const SingleFlight* cache) : cache_(cache) {}
  virtual ~FlightNode() = default;

  FlightNode(const FlightNode&) = delete;
  FlightNode& operator=(const FlightNode&) = delete;

  const SingleFlight* cache() const { return cache_; }
  // Whether it loads `*key`, which has the key type of its cache.
  virtual bool IsFor(const void* key) const = 0;
  // For messages: "'products' key 7". Valid while the cache exists.
  virtual std::string Text() const = 0;

  // This flight starts when one of the two has ended. Both count as waited for. This may refuse a wait that would have
  // ended by chance, but never permits a deadlock.
  void BlockBy(const FlightNode* first, const FlightNode* second);
  void Unblock();

  // This flight is one of those that `batch` loads; null: no longer. Called by the thread that runs it.
  void RunWithin(const FlightNode* batch) {
    if (std::exchange(is_in_batch_, batch != nullptr) || batch != nullptr) SetBatch(batch);
  }

 private:
  friend class LoaderFrame;
  friend class FlightWait;

  static Mutex& GraphMutex();
  void SetBatch(const FlightNode* batch);
  // If true, `path` gets the nodes from the target to this one.
  bool Reaches(const FlightNode* target, std::vector<const FlightNode*>& path) const STOCKADE_REQUIRES(GraphMutex());

  const SingleFlight* const cache_;
  bool is_in_batch_ = false;
  // The flight that this flight's loader waits for, or its batch.
  const FlightNode* waits_for_ STOCKADE_GUARDED_BY(GraphMutex()) = nullptr;
  std::array<const FlightNode*, 2> blocked_by_ STOCKADE_GUARDED_BY(GraphMutex()){};
};

// Marks that the calling thread runs the loader of `flight` during the lifetime of this object. Frames of a thread
// nest.
class LoaderFrame {
 public:
  explicit LoaderFrame(FlightNode* flight) : flight_(flight), outer_(std::exchange(innermost_, this)) {
    if (outer_ != nullptr) EnterOuter();
  }
  ~LoaderFrame() {
    innermost_ = outer_;
    if (outer_ != nullptr) LeaveOuter();
  }
  LoaderFrame(const LoaderFrame&) = delete;
  LoaderFrame& operator=(const LoaderFrame&) = delete;

  // The innermost frame of the calling thread; null outside of loaders.
  static const LoaderFrame* Innermost() { return innermost_; }

  const LoaderFrame* outer() const { return outer_; }
  FlightNode* flight() const { return flight_; }

 private:
  void EnterOuter();
  void LeaveOuter();

  inline static constinit thread_local LoaderFrame* innermost_ = nullptr;

  FlightNode* const flight_;
  LoaderFrame* const outer_;
  const FlightNode* outer_waits_for_ = nullptr;  // Before this frame.
};

// The wait of the calling thread's innermost loader for another flight. Has no effect outside of loaders.
class FlightWait {
 public:
  FlightWait() = default;
  ~FlightWait() { End(); }
  FlightWait(const FlightWait&) = delete;
  FlightWait& operator=(const FlightWait&) = delete;

  // Returns false if the wait would close a cycle: the caller must not wait. `circle` then lists the loads, each of
  // which waits for the next one.
  [[nodiscard]] bool TryBegin(const FlightNode* target, std::string& circle);
  void End() {
    if (waiter_ != nullptr) EndOfWaiter();
  }

 private:
  void EndOfWaiter();

  FlightNode* waiter_ = nullptr;
};

// Marks that the calling thread is within a piece of work of one kind, in any cache, during the lifetime of this
// object.
template <typename Work>
class Frame {
 public:
  Frame() { ++depth; }
  ~Frame() { --depth; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  static bool InAny() { return depth > 0; }

 private:
  inline static constinit thread_local int depth = 0;
};

// The write of an update of a key of `cache` with this hash. There is at most one in a thread.
class UpdateFrame : Frame<struct Update> {
 public:
  UpdateFrame(const SingleFlight* cache, uint64_t hash) {
    cache_ = cache;
    hash_ = hash;
  }

  using Frame::InAny;
  static bool Updates(const SingleFlight* cache, uint64_t hash) { return InAny() && cache_ == cache && hash_ == hash; }

 private:
  inline static constinit thread_local const SingleFlight* cache_ = nullptr;
  inline static constinit thread_local uint64_t hash_ = 0;
};
// A read in strict mode.
using StrictReadFrame = Frame<struct StrictRead>;

// Whether the calling thread runs a loader, a write or a strict read. Such a thread acquires no lock of a key, so that
// readers and writers cannot deadlock.
inline bool IsNested() {
  return LoaderFrame::Innermost() != nullptr || StrictReadFrame::InAny() || UpdateFrame::InAny();
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_LOAD_GRAPH_H_
