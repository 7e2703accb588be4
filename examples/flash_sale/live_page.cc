#include "live_page.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api.h"
#include "http_server.h"

namespace flash_sale {
namespace {

using httplib::Request;
using httplib::Response;
using HandlerResponse = httplib::Server::HandlerResponse;

// A request that httplib itself refuses has no body yet.
ApiError ErrorOfStatus(int status) {
  switch (status) {
    case 413: return {413, "body_too_large", "the body has more than 4096 bytes"};
    case 414: return {414, "path_too_long", "the request's first line is too long"};
    case 500: return {500, "internal", "internal error"};
    default: return {status, "bad_request", "the request is not HTTP that this server supports"};
  }
}

class Page final : public LivePage {
 public:
  Page()
      : server_([](Request& head) {
          head.ranges.clear();  // A list of them could ask for the page a thousand times.
          return !Api::Refusal(head) || !Api::MayHaveBody(head);
        }) {}

  bool Bind(uint16_t port) { return server_.Bind(port); }
  uint16_t port() const override { return server_.port(); }

  void Start(const SaleBoard* board, ShopDoor* door, SaleRequests* requests) override {
    api_.emplace(board, door, requests);
    const auto respond = [this](const Request& request, Response& response) { api_->Respond(request, response); };
    // All except for orders and sales, which have a body to be read first.
    server_.set_pre_routing_handler([respond](const Request& request, Response& response) {
      if (const auto refused = Api::Refusal(request)) {
        Api::Answer(*refused, response);
        if (Api::MayHaveBody(request)) response.set_header("Connection", "close");
      } else if (request.method == "POST") {
        return HandlerResponse::Unhandled;
      } else {
        respond(request, response);
      }
      return HandlerResponse::Handled;
    });
    server_.Post("/orders", respond);
    server_.Post("/sales", respond);
    server_.set_error_handler(httplib::Server::Handler([](const Request&, Response& response) {
      if (!response.body.empty()) return;
      Api::Answer(ErrorOfStatus(response.status), response);
      response.set_header("Connection", "close");
    }));
    // httplib would send the text of what was thrown.
    server_.set_exception_handler([](const Request&, Response& response, const std::exception_ptr&) {
      Api::Answer(ErrorOfStatus(500), response);
    });
    server_.Start();
  }

 private:
  std::optional<Api> api_;  // Before the server, whose threads use it.
  HttpServer server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LivePage>> LivePage::Bind(uint16_t port) {
  auto page = std::make_unique<Page>();
  if (!page->Bind(port)) return absl::UnavailableError(absl::StrCat("cannot listen on 127.0.0.1:", port));
  return page;
}

}  // namespace flash_sale
