#ifndef STOCKADE_TESTS_INVENTORY_CRASH_TRADER_H_
#define STOCKADE_TESTS_INVENTORY_CRASH_TRADER_H_

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inventory/crash/plan.h"
#include "inventory/crash/victim.h"
#include "stockade/base/executor.h"
#include "stockade/inventory/inventory.h"

namespace stockade::testing {

// Writes a line to standard output, whole. A pipe keeps the order in which a thread wrote.
void Say(std::string_view line);

// Says why on standard error, and ends the process with 5.
[[noreturn]] void GiveUp(std::string_view what, const absl::Status& status);

// One thread's trade: sends requests, new ones and those of before once more, settles what it gets, and says each
// answer once it has it:
//   g <request id> <order id> <expires at, us; -1: never> <buyer> <sku>=<quantity>,...    it got these units
//   n <request id> <refusal>                                                              it got none
//   c <request id> ok|refused|forgotten                                                   its order was to be committed
//   x <request id> ok|refused|forgotten                                                   its order was to be cancelled
//   b <request id> try|ok                                                                 a unit of its order comes
//   back r <sku> <units>   R <sku> <units>   A <sku>   D <sku>    about to restock; restocked; added; removed
class Trader {
 public:
  Trader(Inventory& shop, Executor& pool, const Round& round, uint32_t thread);

  // Ends once it has sent as many requests as the round has.
  void Run();

 private:
  struct Item {
    Key key;
    Plan plan;
    OrderId order = 0;  // 0: it got none.
  };

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_()) % bound; }
  Key NextKey() { return {.round = round_.number, .thread = thread_, .index = sent_++}; }
  // A key of before; it may be one that was never sent.
  Key FormerKey();

  void Trade(std::span<const Key> keys);
  void AddOwnSkus(std::span<const Item> items);
  void RemoveOwnSkus(std::span<const Item> items);
  void Ask(std::span<Item> items);
  void AskOne(Item& item);
  void AskMany(std::span<Item> items);
  void Settle(std::span<const Item> items);
  void Extend(const Item& item);
  void Return(const Item& item);
  void Race(const Item& item);
  void Restock(const Plan& plan, Refusal refusal);

  template <typename Answer>
  void Answered(Item& item, const absl::StatusOr<Answer>& answer);
  void Granted(Item& item, OrderId order, absl::Time expires_at, const std::string& buyer,
               std::span<const OrderLine> lines);
  void Settled(char what, const Item& item, const absl::Status& status);

  Inventory& shop_;
  Executor& pool_;
  const Round& round_;
  const uint32_t thread_;
  uint32_t sent_ = 0;
  std::minstd_rand random_;
  uint32_t restocks_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_CRASH_TRADER_H_
