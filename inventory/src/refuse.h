#ifndef STOCKADE_INVENTORY_REFUSE_H_
#define STOCKADE_INVENTORY_REFUSE_H_

#include <string>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/inventory/refusal.h"

namespace stockade::inventory_internal {

// A status of the code that belongs to `refusal`, which RefusalOf() recognizes. Not for kNone.
STOCKADE_EXPORT absl::Status Refuse(Refusal refusal, const std::string& message);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_REFUSE_H_
