#ifndef STOCKADE_REDIS_STATUS_H_
#define STOCKADE_REDIS_STATUS_H_

#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_status.h"

namespace stockade::internal {

// Marks `status` so that RedisOutcomeUnknown() is true, and says so in its text.
STOCKADE_EXPORT absl::Status WithUnknownOutcome(const absl::Status& status);

// The status of an error that the server answered with, such as "WRONGTYPE Operation against a key ...".
absl::Status StatusOfErrorReply(std::string_view text);

// The first word of a server's error.
std::string_view ErrorCodeOf(std::string_view text);

}  // namespace stockade::internal

#endif  // STOCKADE_REDIS_STATUS_H_
