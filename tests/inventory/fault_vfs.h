#ifndef STOCKADE_TESTS_INVENTORY_FAULT_VFS_H_
#define STOCKADE_TESTS_INVENTORY_FAULT_VFS_H_

#include <sqlite3.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inventory/platter.h"

namespace stockade::testing {

// A disk that misbehaves on demand. While the object lives it is SQLite's default VFS: it hands everything on to the
// one that was the default before, and interferes with files below a directory. Those are never really synced: a power
// cut is played, see CutPowerAt().
//
// Connections made through it must be closed before it goes. It offers neither shared memory nor memory maps: a
// connection in WAL mode needs locking_mode=EXCLUSIVE, as the ledger's has. Thread-safe.
class FaultVfs {
 public:
  enum class Call { kOpen, kWrite, kSync, kTruncate, kRemove };
  // How much of a failing call takes effect.
  enum class Reach { kNothing, kPart, kAll };

  struct Fault {
    Call call = Call::kWrite;
    int64_t nth = 1;               // Of those calls, from now on.
    bool for_good = false;         // And all after it.
    std::string_view suffix = "";  // Of the names of the files that count; a literal.
    int code = SQLITE_IOERR_WRITE;
    int system_errno = EIO;  // Left in errno.
    Reach reach = Reach::kNothing;
  };

  // One call that changes what is on the disk.
  struct Change {
    Call call;
    std::string file;  // Name without directory.
  };

  explicit FaultVfs(const std::string& directory);
  ~FaultVfs();

  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  // One fault at a time: replaces the one before.
  void Fail(const Fault& fault);
  void Heal();
  // Whether the fault of the last Fail() has happened.
  bool failed() const;

  // All files together may be so large; what exceeds it is written as far as there is room, and fails with SQLITE_FULL
  // and ENOSPC. None: no limit.
  void SetCapacity(std::optional<int64_t> bytes);
  int64_t used() const;

  // At the `nth` change from now on the power goes: that call, and every one after it, fails.
  void CutPowerAt(int64_t nth);
  bool power_is_off() const;
  // Turns the power off, if it is on, leaves of the files what `seed` makes of what was not synced, and turns it on.
  // Nothing may be open.
  void CyclePower(uint32_t seed);

  // A disk that says it has synced, and has not.
  void SetLyingSync(bool on);

  // All calls that changed something, or tried to, since the beginning.
  std::vector<Change> changes() const;

 private:
  friend struct FaultVfsCalls;
  static void SetCalls(sqlite3_vfs& vfs, const sqlite3_vfs& base);

  struct Verdict {
    int code = SQLITE_OK;
    Reach reach = Reach::kAll;
  };

  // What becomes of a call that changes something, which this counts. With mutex_ held, as all below.
  Verdict Judge(Call call, const std::string& path);
  // How many of `size` bytes at `offset` there is room for.
  int64_t RoomFor(const std::string& path, int64_t offset, int64_t size) const;
  int64_t Used() const;

  const std::string directory_;  // With a slash at its end.
  sqlite3_vfs* const base_;
  sqlite3_vfs self_;  // What SQLite knows of this; its pAppData is this.

  mutable std::mutex mutex_;  // Guards what follows.
  Platter platter_;
  Platter::Random random_{1};
  std::vector<Change> changes_;
  std::optional<Fault> fault_;
  int64_t matching_calls_ = 0;  // Of fault_'s.
  bool failed_ = false;
  std::optional<int64_t> capacity_;
  std::optional<int64_t> cut_in_;  // Changes until the power goes.
  bool power_is_off_ = false;
  bool lying_sync_ = false;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FAULT_VFS_H_
