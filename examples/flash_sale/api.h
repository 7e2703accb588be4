#ifndef STOCKADE_EXAMPLES_FLASH_SALE_API_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_API_H_

#include <httplib.h>

#include <optional>
#include <string>

#include "common/http_api.h"
#include "common/sale_requests.h"
#include "sale_board.h"
#include "shop_door.h"

namespace flash_sale {

using examples::ApiError;

// The page and the API, by the request alone; docs are in README.md. Thread-safe.
class Api {
 public:
  // All must outlive the API.
  Api(const SaleBoard* board, ShopDoor* door, examples::SaleRequests* requests)
      : board_(board), door_(door), requests_(requests) {}

  // The error of a request as far as its head shows it, before its body is read.
  static std::optional<ApiError> Refusal(const httplib::Request& head);

  // Of a request that is not refused, with its body.
  void Respond(const httplib::Request& request, httplib::Response& response);

 private:
  void ShowSale(httplib::Response& response);
  void ShowProduct(const std::string& id, httplib::Response& response);
  void ShowStock(const std::string& id, httplib::Response& response);
  void TakeOrder(const httplib::Request& request, httplib::Response& response);
  void TakeBack(const httplib::Request& request, httplib::Response& response);

  const SaleBoard* const board_;
  ShopDoor* const door_;
  examples::SaleRequests* const requests_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_API_H_
