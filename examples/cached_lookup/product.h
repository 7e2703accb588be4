#ifndef STOCKADE_EXAMPLES_CACHED_LOOKUP_PRODUCT_H_
#define STOCKADE_EXAMPLES_CACHED_LOOKUP_PRODUCT_H_

#include "absl/time/time.h"

namespace cached_lookup {

struct Product {
  int id;
  int brand;
  int price;
};

inline const absl::Duration kTtl = absl::Minutes(1);

}  // namespace cached_lookup

#endif  // STOCKADE_EXAMPLES_CACHED_LOOKUP_PRODUCT_H_
