#include "update_frame.h"

namespace stockade::cache_internal {
namespace {

constinit thread_local int updates = 0;
constinit thread_local int strict_reads = 0;

}  // namespace

UpdateFrame::UpdateFrame() { ++updates; }
UpdateFrame::~UpdateFrame() { --updates; }

bool UpdateFrame::InAny() { return updates > 0; }

StrictReadFrame::StrictReadFrame() { ++strict_reads; }
StrictReadFrame::~StrictReadFrame() { --strict_reads; }

bool StrictReadFrame::InAny() { return strict_reads > 0; }

}  // namespace stockade::cache_internal
