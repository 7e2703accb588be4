#ifndef STOCKADE_TESTS_FLASH_SALE_HTTP_H_
#define STOCKADE_TESTS_FLASH_SALE_HTTP_H_

#include <cstdint>
#include <string>

#include "flash_sale/demo.h"
#include "support/http.h"
#include "support/subprocess.h"

namespace stockade::testing {

inline uint16_t PortOf(const Subprocess& demo) {
  const std::string prefix = "metrics: http://127.0.0.1:";
  return static_cast<uint16_t>(std::stoi(LineOf(demo.out(), prefix).substr(prefix.size())));
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_FLASH_SALE_HTTP_H_
