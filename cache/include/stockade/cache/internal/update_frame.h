#ifndef STOCKADE_CACHE_INTERNAL_UPDATE_FRAME_H_
#define STOCKADE_CACHE_INTERNAL_UPDATE_FRAME_H_

namespace stockade::internal {

// The calling thread runs the write of an UpdateThrough() of `cache`, for as long as this object lives.
class UpdateFrame {
 public:
  explicit UpdateFrame(const void* cache);
  ~UpdateFrame();
  UpdateFrame(const UpdateFrame&) = delete;
  UpdateFrame& operator=(const UpdateFrame&) = delete;

  // Of any cache; of this one.
  static bool InAny();
  static bool In(const void* cache);

 private:
  const void* const cache_;
  UpdateFrame* const outer_;
};

// The calling thread reads in strict mode, in any cache, for as long as this object lives: what it reads meanwhile, in
// a loader or a listener, takes no further lock, so that no circle of readers and writers can close.
class StrictReadFrame {
 public:
  StrictReadFrame();
  ~StrictReadFrame();
  StrictReadFrame(const StrictReadFrame&) = delete;
  StrictReadFrame& operator=(const StrictReadFrame&) = delete;

  static bool InAny();
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_UPDATE_FRAME_H_
