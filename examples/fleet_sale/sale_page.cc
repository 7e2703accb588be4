#include "sale_page.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/api_server.h"
#include "common/sale_api.h"
#include "page.h"

namespace fleet_sale {
namespace {

using examples::ApiError;
using httplib::Request;
using httplib::Response;
using nlohmann::json;

std::optional<ApiError> Refusal(const Request& head) {
  if (auto foreign = examples::RefusalOfOrigin(head)) return foreign;
  if (head.path == "/sales") {
    if (head.method != "POST") return ApiError{405, "method_not_allowed", "sales need the method POST", "POST"};
    return examples::RefusalOfBody(head);
  }
  if (head.path != "/" && head.path != "/sale") return ApiError{404, "not_found", "there is nothing at this path"};
  return examples::RefusalUnlessReading(head);
}

const char* StageText(Stage stage) {
  switch (stage) {
    case Stage::kWaits: return "waits";
    case Stage::kSale: return "the sale is on";
    case Stage::kAudit: return "audit";
    case Stage::kDone: break;
  }
  return "done";
}

json HalfJson(const HalfBoard::Reading& half) {
  const SaleFigures now = half.course.empty() ? SaleFigures() : half.course.back().figures;
  json figures = {{"answered", now.answered}, {"sold", now.sold}, {"retries", now.retries}};
  if (half.audit) {
    figures["orders"] = half.audit->sold;
    figures["oversold"] = half.audit->oversold;
    figures["duplicates"] = half.audit->duplicates;
    figures["lost"] = half.audit->lost;
  }
  json seconds = json::array(), sold = json::array(), answered = json::array();
  for (const Moment& moment : half.course) {
    seconds.push_back(absl::ToDoubleSeconds(moment.elapsed));
    sold.push_back(moment.figures.sold);
    answered.push_back(moment.figures.answered);
  }
  json events = json::array();
  for (const Event& event : half.events) {
    events.push_back({{"seconds", absl::ToDoubleSeconds(event.elapsed)}, {"text", event.text}});
  }
  json segments = json::array();
  for (const Segment& segment : half.segments) {
    json at_node = nullptr;
    if (segment.at_node) at_node = *segment.at_node;
    segments.push_back({{"name", segment.name}, {"units", segment.units}, {"at_node", at_node}});
  }
  return {{"stage", StageText(half.stage)},
          {"figures", std::move(figures)},
          {"course", {{"seconds", std::move(seconds)}, {"sold", std::move(sold)}, {"answered", std::move(answered)}}},
          {"events", std::move(events)},
          {"segments", std::move(segments)}};
}

std::string Phase(const HalfBoard::Reading& naive, const HalfBoard::Reading& stockade) {
  if (stockade.stage == Stage::kDone) return "done";
  if (stockade.stage != Stage::kWaits) return absl::StrCat("stockade: ", StageText(stockade.stage));
  if (naive.stage == Stage::kDone) return "stockade: the sale is on";
  return absl::StrCat("naive: ", StageText(naive.stage));
}

class Page final : public SalePage {
 public:
  Page(const SaleBoard* board, examples::SaleRequests* requests)
      : board_(board), requests_(requests), server_(Refusal) {}

  bool Start(uint16_t port) {
    if (!server_.Bind(port)) return false;
    server_.Start([this](const Request& request, Response& response) { Respond(request, response); }, {"/sales"});
    return true;
  }
  uint16_t port() const override { return server_.port(); }

 private:
  void Respond(const Request& request, Response& response) const {
    examples::SendNoStore(response);
    if (request.path == "/") return examples::SendPage(kPage, response);
    if (request.path == "/sales") return examples::StartSale(request, *requests_, response);
    const HalfBoard::Reading naive = board_->naive.Read();
    const HalfBoard::Reading stockade = board_->stockade.Read();
    examples::SendJson(200,
                       {{"number", board_->number.load()},
                        {"arrival_seconds", board_->arrival_seconds.load()},
                        {"can_start", requests_->open()},
                        {"phase", Phase(naive, stockade)},
                        {"stock", board_->stock},
                        {"buyers", board_->buyers},
                        {"naive", HalfJson(naive)},
                        {"stockade", HalfJson(stockade)}},
                       response);
  }

  const SaleBoard* const board_;
  examples::SaleRequests* const requests_;
  examples::ApiServer server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SalePage>> SalePage::Start(uint16_t port, const SaleBoard* board,
                                                          examples::SaleRequests* requests) {
  auto page = std::make_unique<Page>(board, requests);
  if (!page->Start(port)) return absl::UnavailableError(absl::StrCat("cannot listen on 127.0.0.1:", port));
  return page;
}

}  // namespace fleet_sale
