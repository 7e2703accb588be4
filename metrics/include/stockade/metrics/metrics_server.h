#ifndef STOCKADE_METRICS_METRICS_SERVER_H_
#define STOCKADE_METRICS_METRICS_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// Where a MetricsServer listens, and what it serves.
struct STOCKADE_EXPORT MetricsServerOptions {
  // An IPv4 address to listen on. Loopback, because metrics are nobody's business by default.
  std::string address = "127.0.0.1";
  // 0: one that is free; port() tells which.
  uint16_t port = 9464;
  // Must outlive the server. Not null.
  const MetricsRegistry* registry = MetricsRegistry::Default();

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// Serves a registry at http://address:port/metrics in Prometheus' text format, on eight threads of its own and one that
// accepts (prometheus-cpp's Exposer). Thread-safe. Unusable in a forked child.
//
// A connection that does not send its request within 2 s is closed; until then, and for a second more, it keeps one of
// the threads. So up to eight such connections delay nobody, and more delay a scrape by 3 s for each eight. Whoever can
// connect can read: there is no authentication, and no check of the header Host.
//
// SIGPIPE is ignored in the whole process from then on: each of civetweb's threads sets that when it begins, which may
// be shortly after Start() has returned. The server itself does not need it.
class STOCKADE_EXPORT MetricsServer {
 public:
  // InvalidArgument: Validate()'s text. Unavailable: the address cannot be bound. ResourceExhausted: the system gives
  // no threads.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const MetricsServerOptions& options = {});

  // Waits for the scrapes that are being answered.
  ~MetricsServer();

  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Where it listens, also where the options left the choice to the system.
  uint16_t port() const;

 private:
  struct State;
  explicit MetricsServer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace stockade

#endif  // STOCKADE_METRICS_METRICS_SERVER_H_
