#ifndef STOCKADE_EXAMPLES_FLASH_SALE_SALE_JSON_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_SALE_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sale_board.h"

namespace flash_sale {

// The answer to GET /sale: the run so far, both halves in the same terms. `shards`: units left in each shard of the
// Stockade half; none while it is closed. `can_start`: whether POST /sales would start a sale.
std::string SaleJson(const SaleBoard& board, const std::optional<std::vector<int64_t>>& shards, bool can_start);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_SALE_JSON_H_
