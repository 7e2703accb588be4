#ifndef STOCKADE_TESTS_INVENTORY_PAGE_CHECKSUMS_H_
#define STOCKADE_TESTS_INVENTORY_PAGE_CHECKSUMS_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "page_checksum.h"

namespace stockade::testing {

// Makes the checksums of a closed ledger's pages right after another program has written them, so that a test comes to
// the checks behind them.
inline void MendPageChecksums(const std::string& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::vector<char> page(internal::kPageBytes);
  for (uint32_t number = 1; file.read(page.data(), internal::kPageBytes); ++number) {
    auto* const bytes = reinterpret_cast<unsigned char*>(page.data());
    internal::WritePageChecksum(bytes, internal::PageChecksum(bytes, number));
    file.seekp(int64_t{number - 1} * internal::kPageBytes);
    file.write(page.data(), internal::kPageBytes);
    file.seekg(int64_t{number} * internal::kPageBytes);
  }
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_PAGE_CHECKSUMS_H_
