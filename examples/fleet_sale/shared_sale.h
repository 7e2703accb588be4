#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SHARED_SALE_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SHARED_SALE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace fleet_sale {

inline constexpr int kProcesses = 4;

// The answer to a request: the id of its order, or one of these.
inline constexpr int64_t kNoAnswer = 0;
inline constexpr int64_t kSoldOut = -1;

// One buyer in ten sends the request twice, as after a time-out.
inline bool SendsTwice(int64_t buyer) { return buyer / kProcesses % 10 == 0; }

// The answers to one buyer. The process that serves the buyer writes them, and they outlive that process.
struct BuyerRow {
  std::atomic<int64_t> first = kNoAnswer;
  std::atomic<int64_t> second = kNoAnswer;  // To the same request, sent again: see SendsTwice().
};

// The state of one process, as it reports it.
struct ProcessRow {
  std::atomic<bool> open = false;    // It is connected.
  std::atomic<int64_t> retries = 0;  // Requests that failed and were sent again.
};

// The buyers of a sale and their answers, in a file that all processes map into their memory.
class SharedSale {
 public:
  // Creates the file. Unavailable: there is no room for it, or it cannot be created.
  static absl::StatusOr<SharedSale> Create(const std::string& path, int64_t buyers);
  static absl::StatusOr<SharedSale> Open(const std::string& path);

  int64_t buyers() const { return head_->buyers; }
  BuyerRow& buyer(int64_t number) { return rows_[number]; }
  // Whether the buyer has an answer to all requests.
  bool answered(int64_t number) const {
    return rows_[number].first != kNoAnswer && (!SendsTwice(number) || rows_[number].second != kNoAnswer);
  }
  ProcessRow& process(int number) { return head_->processes[number]; }
  // Buyers with lower numbers have arrived. Buyer b is served by process b % kProcesses.
  std::atomic<int64_t>& arrived() { return head_->arrived; }

 private:
  struct Head {
    int64_t buyers = 0;
    std::atomic<int64_t> arrived = 0;
    ProcessRow processes[kProcesses] = {};
  };

  SharedSale(Head* head, BuyerRow* rows) : head_(head), rows_(rows) {}
  static size_t Bytes(int64_t buyers) { return sizeof(Head) + sizeof(BuyerRow) * static_cast<size_t>(buyers); }
  static absl::StatusOr<SharedSale> Map(const std::string& path, int fd, size_t bytes);

  Head* head_;  // Mapped until the process ends, like the next.
  BuyerRow* rows_;
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SHARED_SALE_H_
