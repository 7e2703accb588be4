#ifndef STOCKADE_TESTS_INVENTORY_CRASH_WITNESS_H_
#define STOCKADE_TESTS_INVENTORY_CRASH_WITNESS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "inventory/crash/plan.h"
#include "inventory/crash/victim.h"

namespace stockade::testing {

// All that a ledger holds of the world.
struct LedgerContents {
  struct Order {
    Key key;
    uint64_t order_id;
    std::vector<OrderLine> lines;
    std::string buyer;
    OrderState state;
    bool reserved;
    int64_t expires_us;  // -1: never.
    int64_t ttl_us;      // -1: for ever.
  };
  struct Sku {
    std::string sku;
    int64_t granted;
    bool removed;
    int64_t sold_forgotten;
    int64_t returned;  // Of `orders`.
  };
  std::vector<Order> orders = {};
  std::vector<Sku> skus = {};
};

// Remembers every answer that a shop gave over all rounds, and every order that its ledger was seen to hold, and holds
// both against what comes later. It fails the test where they differ.
class Witness {
 public:
  explicit Witness(const World& world) : world_(world) {}

  void BeginRound(const Round& round);

  // A line of a Trader.
  void Hear(std::string_view line);

  // Looks through all that the ledger holds.
  void Inspect(const LedgerContents& contents);

  // Requests of each thread that were answered in the last round.
  const std::vector<uint32_t>& answered() const { return answered_; }

  uint64_t orders() const { return orders_; }
  uint64_t repeats() const { return repeats_; }  // Answers that were given before, perhaps in another round.
  uint64_t repeats_of_former_rounds() const { return repeats_of_former_rounds_; }

 private:
  // What is known of a request.
  struct Known {
    uint64_t order_id = 0;  // 0: it has none that anybody knows of.
    int64_t expires_us = -1;
    uint32_t seen_by = 0;                  // The last Inspect() that found it, counted from 1.
    OrderState state = OrderState::kHeld;  // As that found it.
    bool sold = false;                     // Said to be: for ever.
    bool cancelled = false;                // Cancel() was OK.
    bool never_sold = false;               // Commit() was refused, for ever.
    bool return_tried = false;             // A unit perhaps came back.
    bool returned = false;                 // Return() was OK.
    bool gone = false;                     // The ledger has forgotten it, for ever.
  };
  struct Stock {
    int64_t promised = 0;   // Added and acknowledged.
    int64_t attempted = 0;  // Or perhaps not acknowledged.
    int64_t sold = 0;       // By the orders in the ledger, at the last look.
    // Units that came back, and those that perhaps did; and of these, those that were perhaps written off.
    int64_t returned = 0;
    int64_t return_tried = 0;
    int64_t write_off_tried = 0;
    bool added = false;
    bool removed = false;
  };

  void HearGrant(const Key& key, Known& known, const std::vector<std::string>& words);
  void HearRefusal(const Key& key, const Known& known, const std::string& refusal);
  void HearCommit(const Key& key, Known& known, const std::string& answer);
  void HearCancel(const Key& key, Known& known, const std::string& answer);
  void HearReturn(const Key& key, Known& known, const std::string& answer);
  void HearStock(char what, const std::vector<std::string>& words);

  void InspectOrder(const LedgerContents::Order& row);
  void InspectState(const LedgerContents::Order& row, const Plan& plan, Known& known);
  void InspectMissing();
  void InspectStock(std::span<const LedgerContents::Sku> skus);

  // Whether the order of this request can have ended so long ago that it need not be remembered.
  bool MayBeForgotten(const Key& key) const;
  void Complain(const Key& key, std::string_view what);
  void Complain(std::string_view what);

  const World world_;
  std::unordered_map<uint64_t, Known> known_;  // By Key::packed().
  std::unordered_map<std::string, Stock> stock_;
  std::vector<absl::Time> begun_;                       // The rounds.
  absl::Duration shortest_ = absl::InfiniteDuration();  // Retention of any of them.
  std::vector<uint32_t> answered_;
  uint32_t inspections_ = 0;
  int complaints_ = 0;
  uint64_t orders_ = 0;
  uint64_t repeats_ = 0;
  uint64_t repeats_of_former_rounds_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_CRASH_WITNESS_H_
