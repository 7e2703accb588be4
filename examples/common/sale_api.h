#ifndef STOCKADE_EXAMPLES_COMMON_SALE_API_H_
#define STOCKADE_EXAMPLES_COMMON_SALE_API_H_

#include "common/http_api.h"
#include "common/sale_requests.h"

namespace examples {

// Answers POST /sales, whose body is such as {"arrival_seconds": 10} (SaleRequest::arrival; 0 if it is left out):
// starts the next sale, or sends 400 for a bad body and 409 while a sale runs.
void StartSale(const httplib::Request& request, SaleRequests& requests, httplib::Response& response);

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_SALE_API_H_
