#ifndef STOCKADE_TESTS_INVENTORY_SCARCE_LEDGER_H_
#define STOCKADE_TESTS_INVENTORY_SCARCE_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "commit_queue.h"
#include "inventory/recording_ledger.h"
#include "stockade/inventory/ledger.h"

namespace stockade::testing {

// Disk space in memory, which outlives the ledgers on it.
struct ScarceDisk {
  std::mutex mutex;
  std::vector<LedgerRecord> journal = {};  // Guarded by mutex.
  std::atomic<bool> full{false};           // From now on every batch is refused.
  std::atomic<int> refusals_in_ten{0};     // So many batches of ten are refused, at random.
  std::atomic<int64_t> refused{0};         // Records.
  std::atomic<int64_t> batches{0};         // That were begun. One that is written waits for the mutex.

  std::vector<LedgerRecord> Journal() {
    const std::lock_guard lock(mutex);
    return journal;
  }
};

// The queue of the real one before a disk that has room only now and then.
class ScarceLedger final : public Ledger {
 public:
  ScarceLedger(std::shared_ptr<ScarceDisk> disk, uint32_t seed)
      : disk_(std::move(disk)), random_(seed), queue_("ScarceLedger", 16, 1024) {
    EXPECT_EQ(queue_.Start(disk_->Journal().size()), absl::OkStatus());
    writer_ = std::thread([this] { Run(); });
  }
  ~ScarceLedger() override {
    queue_.Close();
    writer_.join();
    queue_.StopNotifying();
  }

  LedgerState TakeRecovered() override { return Replay(disk_->Journal()).state; }
  uint64_t Append(LedgerRecord record) override { return queue_.Append(std::move(record)); }
  absl::Status AwaitDurable(uint64_t position) override { return queue_.AwaitDurable(position); }
  void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) override {
    queue_.NotifyDurable(position, std::move(done));
  }
  std::vector<LedgerRecord> TakeRefused() override {
    std::vector<LedgerRecord> refused = queue_.TakeRefused();
    disk_->refused += static_cast<int64_t>(refused.size());
    return refused;
  }
  absl::Status Health() const override { return queue_.Health(); }

 private:
  void Run() {
    inventory_internal::CommitQueue::Batch batch;
    while (queue_.Take(batch)) {
      ++disk_->batches;
      if (disk_->full || static_cast<int>(random_() % 10) < disk_->refusals_in_ten) {
        queue_.Refused(batch, absl::ResourceExhaustedError("the disk is full"));
        continue;
      }
      {
        const std::lock_guard lock(disk_->mutex);
        EXPECT_EQ(batch.first_row, disk_->journal.size() + 1);
        disk_->journal.insert(disk_->journal.end(), batch.records.begin(), batch.records.end());
      }
      queue_.Written();
    }
  }

  const std::shared_ptr<ScarceDisk> disk_;
  std::minstd_rand random_;
  inventory_internal::CommitQueue queue_;
  std::thread writer_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_SCARCE_LEDGER_H_
