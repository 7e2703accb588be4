#ifndef STOCKADE_BASE_FLOORS_H_
#define STOCKADE_BASE_FLOORS_H_

#include "stockade/base/export.h"

// Each module keeps its internals in a namespace of its own, and sees those of the modules that it is built on.
// scripts/lint.sh refuses an include that goes up a floor.
namespace stockade {
namespace base_internal {}
namespace metrics_internal {
using namespace base_internal;
}
namespace redis_internal {
using namespace base_internal;
using namespace metrics_internal;
}  // namespace redis_internal
namespace mysql_internal {
using namespace base_internal;
using namespace metrics_internal;
}  // namespace mysql_internal
namespace locks_internal {
using namespace base_internal;
using namespace metrics_internal;
using namespace redis_internal;
using namespace mysql_internal;
}  // namespace locks_internal
namespace cache_internal {
using namespace base_internal;
using namespace metrics_internal;
using namespace locks_internal;
}  // namespace cache_internal
namespace inventory_internal {
using namespace base_internal;
using namespace metrics_internal;
using namespace mysql_internal;
using namespace locks_internal;
}  // namespace inventory_internal
}  // namespace stockade

#endif  // STOCKADE_BASE_FLOORS_H_
