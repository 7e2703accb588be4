// Units of several items at once.
//
// Linearizable over all of them. A success, and a refusal found by counting, hold all items' slow locks and freeze
// every shard of every item before the first one is thawed. Between the last freeze and the first thaw no word of any
// of them changes, and each item's sum is its stock: that is the one moment at which all units are taken, or at which
// the item of the line that is returned was short. An item that is thawed while another is still frozen shows what it
// has after that moment, and of the one still frozen nobody can see what it had before: takes and deposits fail on the
// bit, an exact total waits for its slow lock, and none is latched. A refusal because of a latch takes place where the
// latch is read: the stock is zero there. Since all sums are known before the first unit moves, nothing is ever undone.
//
// Free of deadlock. The only thing that is waited for with a slow lock held is another slow lock, by this function
// alone, and it takes them in the order of their items' addresses. (Of a shard's mutex the holder waits for nothing.)
#include <algorithm>
#include <functional>
#include <mutex>
#include <vector>

#include "inventory_metrics.h"
#include "sharded_stock_inline.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade {
namespace {

using base_internal::Concat;
using base_internal::Fatal;

// The items of `lines`, in the order in which their slow locks are taken. Aborts on lines that make no sense.
std::vector<ShardedStock*> InLockOrder(std::span<const StockLine> lines) {
  std::vector<ShardedStock*> items;
  items.reserve(lines.size());
  for (const StockLine& line : lines) {
    if (line.stock == nullptr) Fatal("ShardedStock: TakeTogether(): a line has no stock");
    if (line.units < 1) {
      Fatal(Concat("ShardedStock '", line.stock->name(), "': TakeTogether(): a line of ", line.units,
                   " units: units must be at least 1"));
    }
    items.push_back(line.stock);
  }
  std::sort(items.begin(), items.end(), std::less<>());
  if (const auto twice = std::adjacent_find(items.begin(), items.end()); twice != items.end()) {
    Fatal(Concat("ShardedStock '", (*twice)->name(), "': TakeTogether(): two lines have this stock"));
  }
  return items;
}

}  // namespace

// The slow locks are in a vector, which the analysis does not see.
STOCKADE_NO_THREAD_SAFETY_ANALYSIS const StockLine* ShardedStock::TakeTogether(std::span<const StockLine> lines) {
  const std::vector<ShardedStock*> items = InLockOrder(lines);
  for (ShardedStock* const item : items) item->fork_guard_.Check("ShardedStock", item->name_);
  if (lines.size() == 1) return lines[0].stock->Take(lines[0].units) ? nullptr : lines.data();
  const auto refuse = [](const StockLine& line) {
    line.stock->CountTake(false);
    return &line;
  };
  for (const StockLine& line : lines) {
    if (line.stock->SeenLatched()) return refuse(line);
  }

  // All that may fail, if there is no memory, comes before the first lock.
  locks_internal::ThreadRecord::Reserve(items.size() + locks_internal::ThreadRecord::kUsualHolds);
  std::vector<uint64_t> totals;
  totals.reserve(lines.size());
  std::vector<std::unique_lock<ReentrantMutex>> locks;
  locks.reserve(items.size());
  for (ShardedStock* const item : items) locks.emplace_back(*item->slow_lock_);
  for (const StockLine& line : lines) {
    if (line.stock->Latched()) return refuse(line);
  }
  const StockLine* short_line = nullptr;
  for (const StockLine& line : lines) {
    totals.push_back(line.stock->Freeze());
    if (short_line == nullptr && totals.back() < static_cast<uint64_t>(line.units)) short_line = &line;
  }
  // All is frozen and known. From here on each item can go on by itself.
  for (size_t i = 0; i < lines.size(); ++i) {
    const uint64_t taken = short_line == nullptr ? static_cast<uint64_t>(lines[i].units) : 0;
    lines[i].stock->Gather(taken);
    lines[i].stock->Thaw(totals[i] - taken);
  }
  if (short_line != nullptr) return refuse(*short_line);
  for (const StockLine& line : lines) line.stock->CountTake(true);
  return nullptr;
}

}  // namespace stockade
