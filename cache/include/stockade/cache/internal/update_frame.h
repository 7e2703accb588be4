#ifndef STOCKADE_CACHE_INTERNAL_UPDATE_FRAME_H_
#define STOCKADE_CACHE_INTERNAL_UPDATE_FRAME_H_

#include "stockade/base/export.h"

namespace stockade::internal {

// The calling thread runs the write of an update, of any cache, for as long as this object lives.
class STOCKADE_EXPORT UpdateFrame {
 public:
  UpdateFrame();
  ~UpdateFrame();
  UpdateFrame(const UpdateFrame&) = delete;
  UpdateFrame& operator=(const UpdateFrame&) = delete;

  static bool InAny();
};

// The calling thread reads in strict mode, in any cache, for as long as this object lives: what it reads meanwhile, in
// a loader or a listener, takes no further lock, so that no circle of readers and writers can close.
class STOCKADE_EXPORT StrictReadFrame {
 public:
  StrictReadFrame();
  ~StrictReadFrame();
  StrictReadFrame(const StrictReadFrame&) = delete;
  StrictReadFrame& operator=(const StrictReadFrame&) = delete;

  static bool InAny();
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_UPDATE_FRAME_H_
