#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SALE_BOARD_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SALE_BOARD_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "audit.h"
#include "common/course.h"

namespace fleet_sale {

// The answers so far.
struct SaleFigures {
  int64_t answered = 0;  // Buyers that have an answer to all their requests.
  int64_t sold = 0;      // Buyers that have a unit.
  int64_t retries = 0;   // Requests that failed and were sent again.
};

struct Moment {
  absl::Duration elapsed = {};  // Since the sale opened.
  SaleFigures figures = {};
};

// A fault, or the end of one.
struct Event {
  absl::Duration elapsed = {};
  std::string text = {};
};

// The units of one segment.
struct Segment {
  std::string name = {};
  int64_t units = 0;
  // Of a Redis node's segment in Stockade's half: the units that the node itself counts, if it answers.
  std::optional<int64_t> at_node = {};
};

enum class Stage { kWaits, kSale, kAudit, kDone };

// One half, written by the thread that runs it and read by those that show it. Thread-safe.
class HalfBoard {
 public:
  struct Reading {
    Stage stage = Stage::kWaits;
    std::vector<Moment> course = {};  // Ascending by time; the last is the newest.
    std::vector<Event> events = {};
    std::vector<Segment> segments = {};
    std::optional<Audit> audit = {};
  };

  // Of a new sale: forgets the one before it.
  void Begin();
  void SetStage(Stage stage);
  void Add(const Moment& moment);
  void Add(const Event& event);
  void SetSegments(std::vector<Segment> segments);
  void Judge(const Audit& audit);

  Reading Read() const;

 private:
  mutable std::mutex mutex_;
  Reading reading_;  // Without the course. Guarded by mutex_, like the next.
  examples::Course<Moment> course_;
};

// Both halves of the sale that runs or has run last, for the page.
struct SaleBoard {
  const int64_t stock = 0;
  const int64_t buyers = 0;
  HalfBoard naive = {};
  HalfBoard stockade = {};
  std::atomic<int64_t> number = 1;           // Of the sale.
  std::atomic<int64_t> arrival_seconds = 0;  // Of its first buyers.
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SALE_BOARD_H_
