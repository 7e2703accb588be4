#include "common/sale_api.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/json_body.h"

namespace examples {
namespace {

using nlohmann::json;

constexpr uint64_t kMostArrivalSeconds = 60;

absl::StatusOr<absl::Duration> ParseSaleBody(const std::string& body) {
  json sale;
  if (absl::Status parsed = ParsePlainObject(body, sale); !parsed.ok()) return parsed;
  uint64_t seconds = 0;
  for (const auto& [field, value] : sale.items()) {
    if (field != "arrival_seconds") {
      return absl::InvalidArgumentError("the body has a field other than arrival_seconds");
    }
    const absl::StatusOr<uint64_t> arrival = WholeNumber(value, "arrival_seconds", 0, kMostArrivalSeconds);
    if (!arrival.ok()) return arrival.status();
    seconds = *arrival;
  }
  return absl::Seconds(seconds);
}

}  // namespace

void StartSale(const httplib::Request& request, SaleRequests& requests, httplib::Response& response) {
  const absl::StatusOr<absl::Duration> arrival = ParseSaleBody(request.body);
  if (!arrival.ok()) return SendError({400, "bad_body", std::string(arrival.status().message())}, response);
  const std::optional<int64_t> number = requests.Start(*arrival);
  if (!number) return SendError({409, "sale_is_on", "a sale is running, and the next one starts after it"}, response);
  SendJson(202, {{"sale", *number}, {"arrival_seconds", absl::ToInt64Seconds(*arrival)}}, response);
}

}  // namespace examples
