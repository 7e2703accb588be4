#ifndef STOCKADE_EXAMPLES_FLASH_SALE_REPORT_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_REPORT_H_

#include <string>

#include "audit.h"
#include "load.h"

namespace flash_sale {

struct HalfReport {
  LoadResult load;
  StockAudit audit;
};

// Both halves side by side.
std::string ReportTable(const HalfReport& naive, const HalfReport& stockade);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_REPORT_H_
