#include "stockade/base/hazard_row.h"

#include <thread>

namespace stockade::base_internal {
namespace hazard_row_detail {

constinit HazardRow rows[kMaxThreadSlots];
constinit thread_local HazardRow* light_row = nullptr;

}  // namespace hazard_row_detail

std::span<HazardRow> HazardRows() { return {hazard_row_detail::rows, ThreadSlotsUsed()}; }

void AwaitReads(const void* object) {
  HeavyFence();
  for (const HazardRow& row : HazardRows()) {
    while (row.caller.load(std::memory_order_seq_cst) == object) std::this_thread::yield();
  }
}

}  // namespace stockade::base_internal
