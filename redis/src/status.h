#ifndef STOCKADE_REDIS_STATUS_H_
#define STOCKADE_REDIS_STATUS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_status.h"

namespace stockade::redis_internal {

// Marks `status` so that RedisOutcomeUnknown() is true, and says so in its text.
STOCKADE_EXPORT absl::Status WithUnknownOutcome(const absl::Status& status);

// How much of a server's error the status shows. kHidden is for answers in which the server may repeat a password: only
// the first word, and only if it is one that servers use.
enum class ServerText { kShown, kHidden };

// The status of an error that the server answered with, such as "WRONGTYPE Operation against a key ...". If the server
// repeats the arguments of a command that it does not know, the text ends before them. `explanation` is Stockade's own,
// and follows the text.
absl::Status StatusOfErrorReply(std::string_view text, ServerText show = ServerText::kShown,
                                std::string_view explanation = {});

// Whether a command of this name may have a password among its arguments, which the server's error may repeat.
bool MayCarryPassword(std::string_view command_name);

// StatusOfErrorReply() for the answer to a command of this name, with kHidden if it may have a password.
absl::Status StatusOfErrorTo(std::string_view command_name, std::string_view text, std::string_view explanation = {});

// ResourceExhausted, for which RedisOutOfDescriptors() is true.
absl::Status NoDescriptorError(std::string_view text);

// A transaction was not sent, because the connection has not yet shown that it takes transactions.
absl::Status UnprovenError();
bool IsUnproven(const absl::Status& status);

// Unavailable: there is no connection for the command, because the client has as many as RedisOptions::max_nodes
// allows. There may be one after a pause.
absl::Status NoRoomError(std::string_view text);
bool IsNoRoom(const absl::Status& status);

// The first word of a server's error.
std::string_view ErrorCodeOf(std::string_view text);

// Whether a command of this name runs code of its users on the server: scripts, functions, modules.
bool RunsCode(std::string_view command_name);

// Whether a command of this name changes no data, in any form: those of Redis that replicas serve. False for names that
// are not known.
bool OnlyReads(std::string_view command_name);

// Whether `error` begins with a word by which servers refuse a command for now (LOADING, MOVED, ...), but is none of
// the errors that Redis 2.6 to 8 and Valkey have for it. A script can end with any error after it has written. `slot`
// is that of the command's key, if it has one. If a script repeats a server's words, nothing tells the two apart.
bool ImitatesRefusal(std::string_view error, std::optional<uint16_t> slot);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_STATUS_H_
