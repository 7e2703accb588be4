#ifndef STOCKADE_CACHE_CACHE_HANDLE_H_
#define STOCKADE_CACHE_CACHE_HANDLE_H_

#include <memory>
#include <utility>

namespace stockade {

namespace internal {
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore;
}  // namespace internal

// Pins one value of a LoadingCache: it stays as it is, wherever the entry goes (replaced, invalidated, evicted) and
// after the cache is destroyed too. Holds back that value and nothing else; its weight no longer counts in the cache
// once the entry has left.
//
// A value type. Different handles may be used, moved and destroyed by different threads, one handle by one at a time.
// The last handle of a value that has left the cache runs the value's destructor. A handle that was moved from is
// empty: get() is null.
template <typename Value>
class CacheHandle {
 public:
  const Value& operator*() const { return *pinned_; }
  const Value* operator->() const { return pinned_.get(); }
  const Value* get() const { return pinned_.get(); }

 private:
  template <typename, typename, typename, typename>
  friend class internal::CacheCore;

  explicit CacheHandle(std::shared_ptr<const Value> pinned) : pinned_(std::move(pinned)) {}

  std::shared_ptr<const Value> pinned_;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_HANDLE_H_
