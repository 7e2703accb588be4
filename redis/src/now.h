#ifndef STOCKADE_REDIS_NOW_H_
#define STOCKADE_REDIS_NOW_H_

#include "stockade/base/clock.h"
#include "stockade/base/instant.h"

namespace stockade::redis_internal {

// Servers and sockets know no other clock than the system's, so none is passed in.
inline Instant Now() { return Clock::System()->Now(); }

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_NOW_H_
