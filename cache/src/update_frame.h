#ifndef STOCKADE_CACHE_SRC_UPDATE_FRAME_H_
#define STOCKADE_CACHE_SRC_UPDATE_FRAME_H_

namespace stockade::cache_internal {

// Marks that the calling thread runs the write of an update, of any cache, during the lifetime of this object.
class UpdateFrame {
 public:
  UpdateFrame();
  ~UpdateFrame();
  UpdateFrame(const UpdateFrame&) = delete;
  UpdateFrame& operator=(const UpdateFrame&) = delete;

  static bool InAny();
};

// Marks that the calling thread reads in strict mode, in any cache, during the lifetime of this object. Reads in a
// loader or a listener acquire no further lock meanwhile, so that readers and writers cannot deadlock.
class StrictReadFrame {
 public:
  StrictReadFrame();
  ~StrictReadFrame();
  StrictReadFrame(const StrictReadFrame&) = delete;
  StrictReadFrame& operator=(const StrictReadFrame&) = delete;

  static bool InAny();
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_UPDATE_FRAME_H_
