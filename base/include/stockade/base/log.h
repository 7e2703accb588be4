#ifndef STOCKADE_BASE_LOG_H_
#define STOCKADE_BASE_LOG_H_

#include <functional>
#include <string_view>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade {

// The severity of a message. After a kFatal message the process aborts.
enum class LogSeverity { kInfo, kWarning, kError, kFatal };

// "INFO", "WARNING", "ERROR", "FATAL".
STOCKADE_EXPORT std::string_view LogSeverityName(LogSeverity severity);

// Invoked for every log message of the library, on any thread, one call at a time. Must not call the library and must
// not throw. `message` is one line of printable UTF-8 of at most some 3,000 bytes. Messages quote exceptions, servers
// and callers: newlines, other control characters and bytes that are not UTF-8 are shown as \n and \xHH, and longer
// messages are truncated.
using LogSink = std::function<void(LogSeverity severity, std::string_view message)>;

// Replaces the sink; an empty one restores standard error. Returns after the last call of the old sink has returned.
STOCKADE_EXPORT void SetLogSink(LogSink sink);

namespace base_internal {

// Passes `message`, escaped and truncated, to the sink. At most 20 messages per second are passed on in total; the
// first message after that limit was reached says how many were dropped. A message for which there is no memory is
// dropped in the same way. kFatal messages are never dropped.
STOCKADE_EXPORT void Log(LogSeverity severity, std::string_view message);

// Reports a programming error: logs `message` as kFatal and aborts. `message` must name the object and the value.
[[noreturn]] STOCKADE_EXPORT void Fatal(std::string_view message);

}  // namespace base_internal
}  // namespace stockade

#endif  // STOCKADE_BASE_LOG_H_
