#ifndef STOCKADE_EXAMPLES_FLASH_SALE_ZIPF_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_ZIPF_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace.h"

namespace flash_sale {

// `views` draws from the products 1 to `products`, product k with a weight of 1 / k^exponent. The same seed gives the
// same views.
std::vector<ProductId> ZipfViews(size_t views, size_t products, double exponent, uint64_t seed);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_ZIPF_H_
