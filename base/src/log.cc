#include "stockade/base/log.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "stockade/base/clock.h"
#include "stockade/base/mutex.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

constexpr int kMessagesPerSecond = 20;
// With what is in front of it, a message fits PIPE_BUF: a write(2) of it to a pipe is one piece.
constexpr size_t kMaxMessageBytes = 3'000;

// One write(2) a line, so that lines of several threads and processes do not mix.
void WriteToStandardError(LogSeverity severity, std::string_view message) {
  const std::string line = base_internal::Concat("stockade ", LogSeverityName(severity), ": ", message, "\n");
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

struct Logger {
  base_internal::Mutex mutex;
  LogSink sink STOCKADE_GUARDED_BY(mutex);                              // Empty: standard error.
  Instant window STOCKADE_GUARDED_BY(mutex) = Instant::InfinitePast();  // When the current second began.
  int in_window STOCKADE_GUARDED_BY(mutex) = 0;
  int left_out STOCKADE_GUARDED_BY(mutex) = 0;

  void Emit(LogSeverity severity, std::string_view message) STOCKADE_REQUIRES(mutex) {
    if (sink) {
      sink(severity, message);
    } else {
      WriteToStandardError(severity, message);
    }
  }
};

// Never destroyed, because late destructors log. Needs no memory, because failed allocations are logged.
Logger& GetLogger() {
  alignas(Logger) static std::array<std::byte, sizeof(Logger)> storage;
  static Logger* const logger = new (storage.data()) Logger;
  return *logger;
}

}  // namespace

std::string_view LogSeverityName(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo: return "INFO";
    case LogSeverity::kWarning: return "WARNING";
    case LogSeverity::kError: return "ERROR";
    case LogSeverity::kFatal: return "FATAL";
  }
  return "UNKNOWN";
}

void SetLogSink(LogSink sink) {
  Logger& logger = GetLogger();
  {
    const base_internal::MutexLock lock(logger.mutex);
    std::swap(logger.sink, sink);
  }
  // The old sink, now in `sink`, is destroyed without the mutex: what it captured may log.
}

namespace base_internal {
namespace {

void LogLocked(Logger& logger, LogSeverity severity, std::string_view message) STOCKADE_REQUIRES(logger.mutex) {
  if (severity != LogSeverity::kFatal) {
    const Instant now = Clock::System()->Now();
    if (now - logger.window >= absl::Seconds(1)) {
      if (logger.left_out > 0) {
        logger.Emit(LogSeverity::kWarning, Concat(logger.left_out, " messages were left out: too many a second"));
      }
      logger.window = now;
      logger.in_window = 0;
      logger.left_out = 0;
    }
    if (logger.in_window >= kMessagesPerSecond) {
      ++logger.left_out;
      return;
    }
    ++logger.in_window;
  }
  logger.Emit(severity, Printable(message, kMaxMessageBytes));
}

}  // namespace

void Log(LogSeverity severity, std::string_view message) {
  Logger& logger = GetLogger();
  const MutexLock lock(logger.mutex);
  try {
    LogLocked(logger, severity, message);
  } catch (const std::bad_alloc&) {
    ++logger.left_out;
    if (severity == LogSeverity::kFatal) (void)!write(STDERR_FILENO, message.data(), message.size());
  }
}

void Fatal(std::string_view message) {
  Log(LogSeverity::kFatal, message);
  std::abort();
}

}  // namespace base_internal
}  // namespace stockade
