#include "stockade/metrics/metrics_server.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <prometheus/exposer.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/printable.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

// A connection that sends no request keeps one of civetweb's threads for kRequestTimeout and a second of lingering. By
// default these are 2 threads and 30 s: two idle connections kept every scrape out for half a minute.
constexpr int kThreads = 8;
constexpr absl::Duration kRequestTimeout = absl::Seconds(2);

// What the exposer holds weakly: the registry is the user's, or the process's.
class Forwarder final : public prometheus::Collectable {
 public:
  explicit Forwarder(const MetricsRegistry* registry) : registry_(registry) {}
  std::vector<prometheus::MetricFamily> Collect() const override { return registry_->Collect(); }

 private:
  const MetricsRegistry* const registry_;
};

// Answers what the exposer does not answer as it should: its HTTP server passes requests for all paths that begin with
// /metrics to the exposer, which knows no method but GET. Returns 0 if the exposer is to answer.
int AnswerBeforeExposer(mg_connection* connection) {
  constexpr int kOk = 200;
  constexpr int kNotFound = 404;
  const mg_request_info* const request = mg_get_request_info(connection);
  if (request->local_uri == nullptr || std::string_view(request->local_uri) != "/metrics") {
    mg_printf(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return kNotFound;
  }
  if (std::string_view(request->request_method) != "HEAD") return 0;
  // The length would take a scrape. HTTP does not require it here.
  mg_printf(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n");
  return kOk;
}

}  // namespace

struct MetricsServer::State {
  base_internal::ForkGuard fork_guard;
  // Declared before the exposer, so that it outlives the exposer's threads.
  std::shared_ptr<Forwarder> forwarder;
  std::unique_ptr<prometheus::Exposer> exposer;
  uint16_t port = 0;
};

absl::Status MetricsServerOptions::Validate() const {
  in_addr parsed;
  if (inet_pton(AF_INET, address.c_str(), &parsed) != 1) {
    return absl::InvalidArgumentError(base_internal::Concat(
        "MetricsServer: address '", base_internal::Printable(address, 100), "' is not an IPv4 address"));
  }
  if (registry == nullptr) return absl::InvalidArgumentError("MetricsServer: registry is null");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const MetricsServerOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  const std::string endpoint = base_internal::Concat(options.address, ":", options.port);
  // The exposer's HTTP server does not say so if it cannot start its first thread, and never answers.
  if (absl::Status threads = base_internal::TryThreads(3); !threads.ok()) {
    return absl::Status(threads.code(), base_internal::Concat("MetricsServer: ", threads.message()));
  }
  auto state = std::make_unique<State>();
  state->forwarder = std::make_shared<Forwarder>(options.registry);
  try {
    CivetCallbacks callbacks;  // The server copies them.
    callbacks.begin_request = AnswerBeforeExposer;
    state->exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", endpoint, "num_threads", std::to_string(kThreads),
                                 "request_timeout_ms", std::to_string(absl::ToInt64Milliseconds(kRequestTimeout))},
        &callbacks);
    state->exposer->RegisterCollectable(state->forwarder);
    state->port = static_cast<uint16_t>(state->exposer->GetListeningPorts().at(0));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        base_internal::Concat("MetricsServer: cannot listen on ", endpoint, ": ", error.what()));
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(state)));
}

MetricsServer::MetricsServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

MetricsServer::~MetricsServer() {
  if (state_->fork_guard.InForkedChild()) (void)state_.release();
}

uint16_t MetricsServer::port() const { return state_->port; }

}  // namespace stockade
