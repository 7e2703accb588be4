#ifndef STOCKADE_CACHE_INTERNAL_ERASED_H_
#define STOCKADE_CACHE_INTERNAL_ERASED_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/cache/entry_options.h"
#include "stockade/cache/internal/pinned.h"
#include "stockade/cache/internal/slots.h"
#include "stockade/cache/removal.h"
#include "stockade/locks/lock_lease.h"

namespace stockade::cache_internal {

// Types that stand for keys, values and loaders in the core of a cache, which is compiled without their types.

// A value or an error.
using Answer = absl::StatusOr<Pinned>;
using AnswerCallback = absl::AnyInvocable<void(Answer)>;
// The write of an update that holds a lock in all processes.
using LockedWrite = absl::FunctionRef<absl::Status(const LockLease&)>;

// The loader of one call: a CacheLoader.
using LoaderPtr = std::shared_ptr<const void>;

// A key and its hash, which is computed once per call.
struct KeyAt {
  const void* key;
  uint64_t hash;
  size_t shard;
};

// A copy of a key.
class KeyHolder {
 public:
  // `key` is in the object that this is a part of.
  explicit KeyHolder(const void* key) : key_(key) {}
  virtual ~KeyHolder() = default;
  KeyHolder(const KeyHolder&) = delete;
  KeyHolder& operator=(const KeyHolder&) = delete;

  const void* key() const { return key_; }
  // Whether it equals `*key`, which has the same type. Runs Eq, which may throw.
  virtual bool Is(const void* key) const = 0;
  // For messages.
  virtual std::string Text() const = 0;

 private:
  const void* const key_;
};

// A copy of the key of a KeyAt.
struct KeptKey {
  KeyAt at() const { return {holder->key(), hash, shard}; }

  std::unique_ptr<const KeyHolder> holder;
  uint64_t hash;
  size_t shard;
};

// A key to be loaded, and what its loader may ask for.
struct LoadRequest {
  const void* key;
  const Box* previous;  // Null: none.
};

// The result of a loader for one key.
struct LoadResult {
  std::optional<Answer> answer;
  EntryOptions entry;
};

// An entry that is to be stored.
struct NewEntry {
  const void* value = nullptr;  // The Value, in a box if it is not copied into slots. Null: there is none.
  Pinned box;                   // The new box of the slot, if it has one: CacheCore::BoxFor().
  int64_t weight = 1;
  Instant plain_hit_until;
  std::unique_ptr<EntryExtra> extra;
  bool is_use = true;  // Begins the idle time of the entry that it replaces again: not by a refresh in the background.
};
using EntryPtr = std::unique_ptr<NewEntry>;

// One call of the removal listener.
struct Removal {
  Pinned key;  // A KeyBox.
  Pinned value;
  RemovalCause cause;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_ERASED_H_
