#include "zipf.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace flash_sale {

std::vector<ProductId> ZipfViews(size_t views, size_t products, double exponent, uint64_t seed) {
  std::vector<double> cumulated(products);
  double sum = 0;
  for (size_t k = 0; k < products; ++k) {
    sum += std::pow(static_cast<double>(k + 1), -exponent);
    cumulated[k] = sum;
  }
  std::mt19937_64 random(seed);
  std::vector<ProductId> drawn(views);
  for (ProductId& id : drawn) {
    // 53 random bits, by hand: the standard's distributions differ from library to library.
    const double at = static_cast<double>(random() >> 11) * 0x1p-53 * sum;
    const auto found = std::ranges::upper_bound(cumulated, at);
    id = std::min<ProductId>(found - cumulated.begin(), products - 1) + 1;
  }
  return drawn;
}

}  // namespace flash_sale
