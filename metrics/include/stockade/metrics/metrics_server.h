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

// The address of a MetricsServer and the registry that it serves.
struct STOCKADE_EXPORT MetricsServerOptions {
  // The IPv4 address to listen on. Loopback by default, because metrics are not meant for other hosts.
  std::string address = "127.0.0.1";
  // 0 chooses a free port, which port() returns.
  uint16_t port = 9464;
  // Must outlive the server. Not null.
  const MetricsRegistry* registry = MetricsRegistry::Default();

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// Serves a registry at http://address:port/metrics in the Prometheus text format, on eight threads of its own and one
// that accepts connections (prometheus-cpp's Exposer). Thread-safe. Not usable in a forked child.
//
// GET of /metrics, with or without a query, scrapes the registry. HEAD of it has the same status and the type of the
// contents, but no length. Every other path is 404; paths are normalised first, so //metrics is /metrics.
//
// A connection that does not send its request within 2 s is closed. It occupies one of the threads for these 2 s and
// one second more. Up to seven such connections therefore delay no scrape, and further ones delay a scrape by 3 s for
// each eight. There is no authentication and no check of the Host header: every client that can connect can read the
// metrics.
//
// From then on SIGPIPE is ignored in the whole process: each of civetweb's threads sets that when it starts, which may
// be shortly after Start() has returned. The server itself does not need it.
class STOCKADE_EXPORT MetricsServer {
 public:
  // InvalidArgument: an option is invalid; the message is that of Validate(). Unavailable: the address cannot be bound.
  // ResourceExhausted: the threads cannot be started.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const MetricsServerOptions& options = {});

  // Waits for scrapes that are in progress.
  ~MetricsServer();

  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // The port that the server listens on, also if options.port was 0.
  uint16_t port() const;

 private:
  struct State;
  explicit MetricsServer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace stockade

#endif  // STOCKADE_METRICS_METRICS_SERVER_H_
