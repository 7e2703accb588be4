#include "inventory/platter.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace stockade::testing {
namespace {

// One in `n`.
bool OneIn(uint32_t n, Platter::Random& random) { return random() % n == 0; }

// What a disk keeps of a file's changes: all, none, those up to one that is torn, or some.
class Chance {
 public:
  Chance(size_t changes, Platter::Random& random)
      : random_(random),
        what_(static_cast<What>(random() % 4)),
        sector_(random() % 2 == 0 ? 512 : 4096),
        tenths_(1 + random() % 9),
        in_order_(changes == 0 ? 0 : 1 + random() % changes) {}

  int64_t sector() const { return sector_; }

  void NextChange() { ++change_; }

  // A sector of the change at hand, or its truncation.
  bool Keeps() {
    switch (what_) {
      case kAll: return true;
      case kNone: return false;
      case kInOrder: return change_ < in_order_ || (change_ == in_order_ && OneIn(2, random_));
      case kSome: return random_() % 10 < tenths_;
    }
    return false;
  }

  bool KeepsSize() { return what_ != kNone && OneIn(4, random_); }

 private:
  enum What { kAll, kNone, kInOrder, kSome };

  Platter::Random& random_;
  const What what_;
  const int64_t sector_;
  const uint32_t tenths_;  // Of kSome.
  const size_t in_order_;  // Of kInOrder: the change that is torn.
  size_t change_ = 0;
};

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

void Platter::Apply(const Change& change, std::string& contents) {
  const auto begin = static_cast<size_t>(change.offset);
  if (change.truncation) {
    contents.resize(begin);
    return;
  }
  contents.resize(std::max(contents.size(), begin + change.bytes.size()));
  contents.replace(begin, change.bytes.size(), change.bytes);
}

void Platter::File::SyncAll() {
  for (const Change& change : changes) Apply(change, synced);
  changes.clear();
  entry_synced = true;
}

std::string Platter::File::ByChance(Random& random) const {
  Chance chance(changes.size(), random);
  std::string contents = synced;
  std::string whole = synced;
  for (const Change& change : changes) {
    Apply(change, whole);
    chance.NextChange();
    if (change.truncation) {
      if (chance.Keeps()) Apply(change, contents);
      continue;
    }
    int64_t from = change.offset;
    const int64_t end = change.offset + static_cast<int64_t>(change.bytes.size());
    while (from < end) {
      const int64_t to = std::min(end, (from / chance.sector() + 1) * chance.sector());
      const auto begin = static_cast<size_t>(from - change.offset);
      if (chance.Keeps()) {
        Apply({.offset = from, .bytes = change.bytes.substr(begin, static_cast<size_t>(to - from))}, contents);
      }
      from = to;
    }
  }
  if (whole.size() > contents.size() && chance.KeepsSize()) contents.resize(whole.size());
  return contents;
}

void Platter::Find(const std::string& path) {
  if (files_.contains(path)) return;
  files_.emplace(path, File{.synced = ContentsOf(path), .entry_synced = true});
}

void Platter::Create(const std::string& path) { files_.insert_or_assign(path, File()); }

void Platter::Write(const std::string& path, int64_t offset, std::string_view bytes) {
  files_.at(path).changes.push_back({.offset = offset, .bytes = std::string(bytes)});
}

void Platter::Truncate(const std::string& path, int64_t size) {
  files_.at(path).changes.push_back({.offset = size, .truncation = true});
}

void Platter::Sync(const std::string& path) {
  files_.at(path).SyncAll();
  removed_.erase(path);
}

void Platter::SyncInPart(const std::string& path, Random& random) {
  File& file = files_.at(path);
  file.synced = file.ByChance(random);
  file.changes.clear();
}

void Platter::SyncNothing(const std::string& path) { files_.at(path).changes.clear(); }

void Platter::Remove(const std::string& path) {
  auto file = files_.extract(path);
  if (!file.empty() && file.mapped().entry_synced) removed_.insert_or_assign(path, std::move(file.mapped()));
}

void Platter::SyncDirectory() {
  removed_.clear();
  for (auto& [path, file] : files_) file.entry_synced = true;
}

void Platter::LeaveWhatIsDurable(Random& random) {
  std::map<std::string, std::optional<std::string>> left;
  for (const auto& [path, file] : removed_) {
    left[path] = OneIn(2, random) ? std::optional(file.ByChance(random)) : std::nullopt;
  }
  for (const auto& [path, file] : files_) {
    if (file.entry_synced || OneIn(2, random)) left[path] = file.ByChance(random);
    // Otherwise the entry is that of a removed file of the same name, or nothing.
    left.try_emplace(path);
  }
  for (const auto& [path, contents] : left) {
    if (contents.has_value()) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << *contents;
    } else {
      std::filesystem::remove(path);
    }
  }
  files_.clear();
  removed_.clear();
}

}  // namespace stockade::testing
