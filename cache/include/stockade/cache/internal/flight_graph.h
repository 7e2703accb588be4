#ifndef STOCKADE_CACHE_INTERNAL_FLIGHT_GRAPH_H_
#define STOCKADE_CACHE_INTERNAL_FLIGHT_GRAPH_H_

#include <array>
#include <string>
#include <vector>

#include "stockade/base/export.h"

namespace stockade::internal {

class CacheBase;

// Which flights wait for which, over all caches of the process: what finds a wait that would never end.
//
// Invariants: the edges form no circle, since the only ones that could close it are added by TryWait(), which looks. An
// edge's target outlives the edge: who waits for a flight holds it, a flight is unblocked before its blockers leave the
// table of flights, and a batch lets go of its flights before it ends. All edges are guarded by one mutex of the
// process, taken after any shard's and before none; only loads within loads, and loads that wait for an older load of
// their key, take it.
class STOCKADE_EXPORT FlightNode {
 public:
  // `cache` tells the flights of one cache from those of others.
  explicit FlightNode(const CacheBase* cache) : cache_(cache) {}
  virtual ~FlightNode() = default;

  FlightNode(const FlightNode&) = delete;
  FlightNode& operator=(const FlightNode&) = delete;

  const CacheBase* cache() const { return cache_; }
  // Loads `*key`, of the key type of its cache.
  virtual bool IsFor(const void* key) const = 0;
  // For messages: "'products' key 7". While the cache is there.
  virtual std::string Text() const = 0;

  // This flight starts when one of the two has ended. Either counts as waited for: that may refuse a wait which luck
  // would have ended, never allow one that hangs.
  void BlockBy(const FlightNode* first, const FlightNode* second);
  void Unblock();

  // This flight is one of those that `batch` loads at once; null: no more.
  void RunWithin(const FlightNode* batch);

 private:
  friend class LoaderFrame;
  friend class FlightWait;

  // `path`: if so, gets the nodes from the target to this one.
  bool Reaches(const FlightNode* target, std::vector<const FlightNode*>& path) const;

  const CacheBase* const cache_;
  const FlightNode* waits_for_ = nullptr;  // What the loader of this flight waits for at the moment, or its batch.
  std::array<const FlightNode*, 2> blocked_by_{};
};

// The calling thread runs the loader of `flight`, for as long as this object lives. Frames of a thread nest.
class STOCKADE_EXPORT LoaderFrame {
 public:
  explicit LoaderFrame(FlightNode* flight);
  ~LoaderFrame();
  LoaderFrame(const LoaderFrame&) = delete;
  LoaderFrame& operator=(const LoaderFrame&) = delete;

  // The innermost frame of the calling thread; null outside of loaders.
  static const LoaderFrame* Innermost();

  const LoaderFrame* outer() const { return outer_; }
  FlightNode* flight() const { return flight_; }

 private:
  FlightNode* const flight_;
  LoaderFrame* const outer_;
};

// The wait of the calling thread's innermost loader for another flight; nothing outside of loaders.
class STOCKADE_EXPORT FlightWait {
 public:
  FlightWait() = default;
  ~FlightWait() { End(); }
  FlightWait(const FlightWait&) = delete;
  FlightWait& operator=(const FlightWait&) = delete;

  // False where the wait would close a circle: the caller must not wait. `circle` then says which: each load waits for
  // the next one.
  [[nodiscard]] bool TryBegin(const FlightNode* target, std::string& circle);
  void End();

 private:
  FlightNode* waiter_ = nullptr;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_FLIGHT_GRAPH_H_
