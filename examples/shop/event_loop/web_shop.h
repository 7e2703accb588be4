#ifndef STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_WEB_SHOP_H_
#define STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_WEB_SHOP_H_

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <chrono>
#include <memory>

#include "event_loop/http.h"

namespace shop {

inline constexpr std::chrono::milliseconds kDeadline(250);  // Of a request.
inline constexpr std::chrono::seconds kTtl(1);              // Of a product's page.

// Answers the requests of a web server:
//   GET /products/<id>
//   POST /orders?sku=<id>&user=<name>&request=<id of this request>
// One object per event loop, which runs all of its calls.
class WebShop {
 public:
  virtual ~WebShop() = default;
  // `request` exists until the answer is there.
  virtual asio::awaitable<Response> Answer(const Request& request) = 0;
};

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_WEB_SHOP_H_
