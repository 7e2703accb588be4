#include "dashboards/prometheus.h"

#include <filesystem>
#include <fstream>
#include <regex>

#include "dashboards/dashboards.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/loopback.h"
#include "support/subprocess.h"

namespace stockade::testing {
namespace {

// The body of an answer, whatever its status; empty where there is none. `query` is not encoded yet.
std::string HttpGet(const std::string& url, const std::string& query = "") {
  std::vector<std::string> command = {"curl", "--silent", "--noproxy", "*", "--max-time", "30", "--fail-with-body"};
  if (!query.empty()) command.insert(command.end(), {"--get", "--data-urlencode", "query=" + query});
  command.push_back(url);
  const RunResult result = RunToEnd(command);
  return result.status == 0 || result.status == 22 ? result.out : "";  // 22: an error of HTTP, with a body.
}

}  // namespace

Prometheus::Prometheus(const std::vector<uint16_t>& targets) {
  namespace fs = std::filesystem;
  const std::string config = dir_.File("prometheus.yml");
  std::ofstream(config) << std::regex_replace(ReadSource("metrics/prometheus/prometheus.yml"),
                                              std::regex(R"((\w+_interval: )15s)"), "$01500ms");
  fs::copy(std::string(STOCKADE_SOURCE_DIR) + "/metrics/prometheus/rules", dir_.File("rules"));
  std::ofstream list(dir_.File("targets.yml"));
  list << "- targets:\n";
  for (const uint16_t target : targets) list << "    - 127.0.0.1:" << target << "\n";
  list.close();
  // Another one may take the port before it does.
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = FreePort();
    const bool ready =
        process_.Start({"prometheus", "--config.file=" + config, "--storage.tsdb.path=" + dir_.File("data"),
                        base_internal::Concat("--web.listen-address=127.0.0.1:", port_), "--log.level=warn"},
                       "Prometheus", [&] { return HttpGet(Url("/-/ready")).find("is Ready") != std::string::npos; });
    if (ready) return;
  }
  base_internal::Fatal(base_internal::Concat("Prometheus does not start: ", process_.log()));
}

std::string Prometheus::Url(const std::string& path) const {
  return base_internal::Concat("http://127.0.0.1:", port_, path);
}

Prometheus::Answer Prometheus::Ask(const std::string& expr) const {
  const auto body = nlohmann::json::parse(HttpGet(Url("/api/v1/query"), expr), nullptr, false);
  if (body.is_discarded()) return {.error = "no answer"};
  if (body.at("status") != "success") return {.error = body.at("error")};
  Answer answer;
  for (const auto& sample : body.at("data").at("result")) {
    ++answer.samples;
    if (sample.at("value")[1] != "NaN") ++answer.numbers;
  }
  return answer;
}

std::vector<nlohmann::json> Prometheus::Rules() const {
  std::vector<nlohmann::json> rules;
  const auto body = nlohmann::json::parse(HttpGet(Url("/api/v1/rules")));
  for (const auto& group : body.at("data").at("groups")) {
    for (const auto& rule : group.at("rules")) rules.push_back(rule);
  }
  return rules;
}

}  // namespace stockade::testing
