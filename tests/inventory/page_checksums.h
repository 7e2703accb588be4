#ifndef STOCKADE_TESTS_INVENTORY_PAGE_CHECKSUMS_H_
#define STOCKADE_TESTS_INVENTORY_PAGE_CHECKSUMS_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "checksum_vfs.h"

namespace stockade::testing {

// Makes the checksums of a closed ledger's pages right after another program has written them, so that a test comes to
// the checks behind them.
inline void MendPageChecksums(const std::string& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::vector<char> page(inventory_internal::kPageBytes);
  for (uint32_t number = 1; file.read(page.data(), inventory_internal::kPageBytes); ++number) {
    auto* const bytes = reinterpret_cast<unsigned char*>(page.data());
    inventory_internal::WritePageChecksum(bytes, inventory_internal::PageChecksum(bytes, number));
    file.seekp(int64_t{number - 1} * inventory_internal::kPageBytes);
    file.write(page.data(), inventory_internal::kPageBytes);
    file.seekg(int64_t{number} * inventory_internal::kPageBytes);
  }
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_PAGE_CHECKSUMS_H_
