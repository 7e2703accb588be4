#include "stockade/cache/internal/update_frame.h"

namespace stockade::internal {
namespace {

constinit thread_local UpdateFrame* innermost = nullptr;
constinit thread_local int strict_reads = 0;

}  // namespace

UpdateFrame::UpdateFrame(const void* cache) : cache_(cache), outer_(innermost) { innermost = this; }
UpdateFrame::~UpdateFrame() { innermost = outer_; }

bool UpdateFrame::InAny() { return innermost != nullptr; }

bool UpdateFrame::In(const void* cache) {
  for (const UpdateFrame* frame = innermost; frame != nullptr; frame = frame->outer_) {
    if (frame->cache_ == cache) return true;
  }
  return false;
}

StrictReadFrame::StrictReadFrame() { ++strict_reads; }
StrictReadFrame::~StrictReadFrame() { --strict_reads; }

bool StrictReadFrame::InAny() { return strict_reads > 0; }

}  // namespace stockade::internal
