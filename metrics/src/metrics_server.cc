#include "stockade/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <prometheus/exposer.h>

#include <exception>
#include <utility>
#include <vector>

#include "stockade/base/fork_guard.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

// What the exposer holds weakly: the registry is the user's, or the process's.
class Forwarder final : public prometheus::Collectable {
 public:
  explicit Forwarder(const MetricsRegistry* registry) : registry_(registry) {}
  std::vector<prometheus::MetricFamily> Collect() const override { return registry_->Collect(); }

 private:
  const MetricsRegistry* const registry_;
};

}  // namespace

struct MetricsServer::State {
  internal::ForkGuard fork_guard;
  // Declared before the exposer, so that it outlives the exposer's threads.
  std::shared_ptr<Forwarder> forwarder;
  std::unique_ptr<prometheus::Exposer> exposer;
  uint16_t port = 0;
};

absl::Status MetricsServerOptions::Validate() const {
  in_addr parsed;
  if (inet_pton(AF_INET, address.c_str(), &parsed) != 1) {
    return absl::InvalidArgumentError(internal::Concat("MetricsServer: address '", address, "' is no IPv4 address"));
  }
  if (registry == nullptr) return absl::InvalidArgumentError("MetricsServer: registry is null");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const MetricsServerOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  const std::string endpoint = internal::Concat(options.address, ":", options.port);
  auto state = std::make_unique<State>();
  state->forwarder = std::make_shared<Forwarder>(options.registry);
  try {
    state->exposer = std::make_unique<prometheus::Exposer>(endpoint);
    state->exposer->RegisterCollectable(state->forwarder);
    state->port = static_cast<uint16_t>(state->exposer->GetListeningPorts().at(0));
  } catch (const std::exception& error) {
    return absl::UnavailableError(internal::Concat("MetricsServer: cannot listen on ", endpoint, ": ", error.what()));
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(state)));
}

MetricsServer::MetricsServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

MetricsServer::~MetricsServer() {
  if (state_->fork_guard.InForkedChild()) (void)state_.release();
}

uint16_t MetricsServer::port() const { return state_->port; }

}  // namespace stockade
