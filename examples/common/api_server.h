#ifndef STOCKADE_EXAMPLES_COMMON_API_SERVER_H_
#define STOCKADE_EXAMPLES_COMMON_API_SERVER_H_

#include <httplib.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/http_api.h"
#include "common/http_server.h"

namespace examples {

// A page and its API on a port of 127.0.0.1. Each request is checked by its head, before its body is read.
class ApiServer {
 public:
  // Invoked by several threads at once.
  using Refusal = std::function<std::optional<ApiError>(const httplib::Request& head)>;
  using Respond = std::function<void(const httplib::Request& request, httplib::Response& response)>;

  explicit ApiServer(Refusal refusal);

  // False: cannot listen on the port. 0: a free port. Connections wait until Start().
  bool Bind(uint16_t port) { return server_.Bind(port); }
  uint16_t port() const { return server_.port(); }
  // Answers requests that are not refused by `respond` from now on. `posted`: the paths to which clients may send a
  // body, by POST.
  void Start(const Respond& respond, const std::vector<std::string>& posted = {});

 private:
  const Refusal refusal_;
  HttpServer server_;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_API_SERVER_H_
