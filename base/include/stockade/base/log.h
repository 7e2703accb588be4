#ifndef STOCKADE_BASE_LOG_H_
#define STOCKADE_BASE_LOG_H_

#include <functional>
#include <string_view>

#include "stockade/base/export.h"

namespace stockade {

// How bad it is. kFatal comes before the process aborts.
enum class LogSeverity { kInfo, kWarning, kError, kFatal };

// "INFO", "WARNING", "ERROR", "FATAL".
STOCKADE_EXPORT std::string_view LogSeverityName(LogSeverity severity);

// Called for every diagnostic of the library, from any thread, one call at a time. Must not call the library, must not
// throw. `message` is one line of printable UTF-8 of at most some 3,000 bytes: messages quote exceptions, servers and
// callers, and what they contain of newlines, other control characters and bytes that are not UTF-8 is shown as \n and
// \xHH; the rest of a longer message is left out.
using LogSink = std::function<void(LogSeverity severity, std::string_view message)>;

// Replaces the sink; an empty one brings back standard error. Returns after the last call of the old sink has returned.
STOCKADE_EXPORT void SetLogSink(LogSink sink);

namespace internal {

// Hands `message`, escaped and cut, to the sink; at most 20 messages a second in all, and the next one after a pause
// says how many were left out. kFatal is never limited.
STOCKADE_EXPORT void Log(LogSeverity severity, std::string_view message);

// A programmer's error: logs `message` as kFatal, which must name the object and the value, and aborts.
[[noreturn]] STOCKADE_EXPORT void Fatal(std::string_view message);

}  // namespace internal
}  // namespace stockade

#endif  // STOCKADE_BASE_LOG_H_
