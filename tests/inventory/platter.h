#ifndef STOCKADE_TESTS_INVENTORY_PLATTER_H_
#define STOCKADE_TESTS_INVENTORY_PLATTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace stockade::testing {

// What of some files a power cut would leave. The files themselves show what programs see: every write, synced or not,
// as the page cache does. This keeps, beside them, what was synced, and each change since.
//
// What it takes for granted, and what not:
//  - A sync of a file makes its contents, its size and its directory entry durable; one of the directory makes durable
//    which files there are. Nothing else makes anything so.
//  - Of what was not synced each sector may be durable or not, in any order, whatever was written later. A sector is
//    old or new, never a mixture: SQLite counts on it, too ("powersafe overwrite"), beyond what its checksums cover.
//  - The size may be durable without the bytes, which are zeros then.
//  - A removal may be undone, as long as neither the directory was synced nor a new file of that name.
//  - After a sync that failed, what it should have made durable is so in part, for good: later syncs leave out what the
//    kernel takes for clean.
//
// Not thread-safe.
class Platter {
 public:
  using Random = std::minstd_rand;

  // The file at `path` as it is now is durable, unless it is known already.
  void Find(const std::string& path);
  // A new, empty file.
  void Create(const std::string& path);
  void Write(const std::string& path, int64_t offset, std::string_view bytes);
  void Truncate(const std::string& path, int64_t size);
  void Sync(const std::string& path);
  // A sync that fails: of what it should have made durable some is, by chance, or none.
  void SyncInPart(const std::string& path, Random& random);
  void SyncNothing(const std::string& path);
  void Remove(const std::string& path);
  void SyncDirectory();

  // Makes the files what a power cut now would leave, by chance, and forgets them. Nobody may have them open.
  void LeaveWhatIsDurable(Random& random);

 private:
  // A write of `bytes` at `offset`; or, where `truncation`, a truncation to `offset`.
  struct Change {
    int64_t offset = 0;
    std::string bytes = {};
    bool truncation = false;
  };
  struct File {
    std::string synced = {};
    bool entry_synced = false;
    std::deque<Change> changes = {};  // Since the last sync, oldest first.

    void SyncAll();
    // `synced`, and those of `changes` that chance keeps.
    std::string ByChance(Random& random) const;
  };

  static void Apply(const Change& change, std::string& contents);

  std::map<std::string, File> files_;    // By path.
  std::map<std::string, File> removed_;  // By path; may come back.
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_PLATTER_H_
