#ifndef STOCKADE_EXAMPLES_FLASH_SALE_LOAD_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "catalogue.h"
#include "common/progress.h"
#include "hot_key_log.h"
#include "latency.h"
#include "referee.h"
#include "sale_board.h"
#include "shop.h"
#include "trace.h"

namespace flash_sale {

using examples::Progress;

// Each viewer opens a page this often, or as often as the shop answers if that is slower. One page in kHotPageEvery is
// the sale's, because people reload it while they wait. The others come from the trace.
inline constexpr absl::Duration kViewInterval = absl::Milliseconds(2);
inline constexpr int64_t kHotPageEvery = 4;

// One half of the demo: the shop that the load drives, and its observers.
struct Half {
  const char* label;
  Shop* shop;
  const Catalogue* catalogue;
  HotKeyLog* log;
  HalfBoard* board;
};

struct LoadPlan {
  const std::vector<ProductId>* views;  // Not empty; replayed from the start again when it ends.
  ProductId hot;
  int64_t viewers;
  int64_t buyers;
  int64_t stock;
  absl::Duration duration;  // Of the page views, at the least: they go on until the sale is over.
  uint64_t seed;
  // Zero: a buyer arrives as soon as a thread is free. Otherwise the first buyers, half as many again as there
  // are units, arrive in even steps over this time, so that the stock can be seen to run out; the others as before.
  absl::Duration arrival = {};
};

struct LoadResult {
  LatencyHistogram page_views = {};
  SaleFigures sale = {};
  HotKeyFigures hot_key = {};
  int64_t retried = 0;
  int64_t cancelled = 0;
  int64_t abandoned = 0;
  int64_t errors = 0;
  std::string first_error = {};
};

// The same load for any shop: page views for all of the time, and the sale when a third of it has passed.
LoadResult RunLoad(const Half& half, const LoadPlan& plan, Progress* progress);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_LOAD_H_
