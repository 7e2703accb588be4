#ifndef STOCKADE_TESTS_DASHBOARDS_PROMETHEUS_H_
#define STOCKADE_TESTS_DASHBOARDS_PROMETHEUS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/server_process.h"
#include "support/temp_dir.h"

namespace stockade::testing {

// A real Prometheus on 127.0.0.1 with the configuration and the rules of metrics/prometheus, except the targets and the
// intervals, which are half a second. Aborts with its log if it does not start.
class Prometheus {
 public:
  // Scrapes these ports of 127.0.0.1.
  explicit Prometheus(const std::vector<uint16_t>& targets);

  struct Answer {
    std::string error = {};  // Empty: it is valid.
    size_t samples = 0;
    size_t numbers = 0;  // Of the samples those that are not NaN.
  };
  Answer Ask(const std::string& expr) const;
  // All rules, of all groups, as its HTTP API has them.
  std::vector<nlohmann::json> Rules() const;

 private:
  std::string Url(const std::string& path) const;

  const TempDir dir_;
  uint16_t port_;
  ServerProcess process_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_DASHBOARDS_PROMETHEUS_H_
