#ifndef STOCKADE_EXAMPLES_FLASH_SALE_TRACE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace flash_sale {

using ProductId = uint64_t;

// The page views of a file, plain or gzip: a decimal key a line, "\n" or "\r\n". InvalidArgument says what is wrong,
// and in which line: no such file, a directory, a damaged gzip, no line at all, a line that is no key.
absl::StatusOr<std::vector<ProductId>> ReadTrace(const std::string& path);

// The key that `views`, which is not empty, has most often; of several the least.
ProductId MostViewed(const std::vector<ProductId>& views);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_TRACE_H_
