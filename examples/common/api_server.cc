#include "common/api_server.h"

#include <exception>
#include <utility>

namespace examples {

using httplib::Request;
using httplib::Response;
using HandlerResponse = httplib::Server::HandlerResponse;

ApiServer::ApiServer(Refusal refusal)
    : refusal_(std::move(refusal)), server_([this](Request& head) {
        head.ranges.clear();  // A list of them could ask for the page a thousand times.
        return !refusal_(head) || !MayHaveBody(head);
      }) {}

void ApiServer::Start(const Respond& respond, const std::vector<std::string>& posted) {
  // All except for requests with a body, which must be read first.
  server_.set_pre_routing_handler([this, respond](const Request& request, Response& response) {
    if (const auto refused = refusal_(request)) {
      SendError(*refused, response);
      if (MayHaveBody(request)) response.set_header("Connection", "close");
    } else if (request.method == "POST") {
      return HandlerResponse::Unhandled;
    } else {
      respond(request, response);
    }
    return HandlerResponse::Handled;
  });
  for (const std::string& path : posted) server_.Post(path, respond);
  server_.set_error_handler(httplib::Server::Handler([](const Request&, Response& response) {
    if (!response.body.empty()) return;
    SendError(ErrorOfStatus(response.status), response);
    response.set_header("Connection", "close");
  }));
  // httplib would send the text of what was thrown.
  server_.set_exception_handler(
      [](const Request&, Response& response, const std::exception_ptr&) { SendError(ErrorOfStatus(500), response); });
  server_.Start();
}

}  // namespace examples
