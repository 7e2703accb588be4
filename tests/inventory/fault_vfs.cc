#include "inventory/fault_vfs.h"

#include <algorithm>
#include <filesystem>

#include "gtest/gtest.h"

namespace stockade::testing {
namespace {

constexpr char kName[] = "stockade-fault";

int CodeWithoutPower(FaultVfs::Call call) {
  switch (call) {
    case FaultVfs::Call::kOpen: return SQLITE_CANTOPEN;
    case FaultVfs::Call::kWrite: return SQLITE_IOERR_WRITE;
    case FaultVfs::Call::kSync: return SQLITE_IOERR_FSYNC;
    case FaultVfs::Call::kTruncate: return SQLITE_IOERR_TRUNCATE;
    case FaultVfs::Call::kRemove: return SQLITE_IOERR_DELETE;
  }
  return SQLITE_IOERR;
}

}  // namespace

FaultVfs::FaultVfs(const std::string& directory)
    : directory_(std::filesystem::canonical(directory).string() + "/"),
      base_(sqlite3_vfs_find(nullptr)),
      // What is not replaced has no use for its first argument, which is this one's.
      self_(*base_) {
  self_.pNext = nullptr;
  self_.zName = kName;
  self_.pAppData = this;
  SetCalls(self_, *base_);
  EXPECT_EQ(sqlite3_vfs_register(&self_, 1), SQLITE_OK);
}

FaultVfs::~FaultVfs() {
  EXPECT_EQ(sqlite3_vfs_unregister(&self_), SQLITE_OK);
  // Unregistered, the default is any of the others.
  EXPECT_EQ(sqlite3_vfs_register(base_, 1), SQLITE_OK);
}

void FaultVfs::Fail(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  matching_calls_ = 0;
  failed_ = false;
}

void FaultVfs::Heal() {
  const std::lock_guard lock(mutex_);
  fault_.reset();
}

bool FaultVfs::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

void FaultVfs::SetCapacity(std::optional<int64_t> bytes) {
  const std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

int64_t FaultVfs::used() const {
  const std::lock_guard lock(mutex_);
  return Used();
}

void FaultVfs::CutPowerAt(int64_t nth) {
  const std::lock_guard lock(mutex_);
  cut_in_ = nth;
}

bool FaultVfs::power_is_off() const {
  const std::lock_guard lock(mutex_);
  return power_is_off_;
}

void FaultVfs::CyclePower(uint32_t seed) {
  const std::lock_guard lock(mutex_);
  Platter::Random random(seed);
  platter_.LeaveWhatIsDurable(random);
  power_is_off_ = false;
  cut_in_.reset();
}

void FaultVfs::SetLyingSync(bool on) {
  const std::lock_guard lock(mutex_);
  lying_sync_ = on;
}

std::vector<FaultVfs::Change> FaultVfs::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

FaultVfs::Verdict FaultVfs::Judge(Call call, const std::string& path) {
  changes_.push_back({.call = call, .file = std::filesystem::path(path).filename().string()});
  if (power_is_off_) {
    errno = EIO;
    return {CodeWithoutPower(call), Reach::kNothing};
  }
  if (cut_in_.has_value() && --*cut_in_ <= 0) {
    // What is under way reaches the page cache, so that it is among what may be durable.
    power_is_off_ = true;
    errno = EIO;
    return {CodeWithoutPower(call), Reach::kAll};
  }
  if (!fault_.has_value() || fault_->call != call || !path.ends_with(fault_->suffix)) return {};
  ++matching_calls_;
  if (matching_calls_ != fault_->nth && !(fault_->for_good && matching_calls_ > fault_->nth)) return {};
  failed_ = true;
  errno = fault_->system_errno;
  return {fault_->code, fault_->reach};
}

int64_t FaultVfs::RoomFor(const std::string& path, int64_t offset, int64_t size) const {
  if (!capacity_.has_value()) return size;
  const int64_t growth = offset + size - static_cast<int64_t>(std::filesystem::file_size(path));
  const int64_t excess = growth - std::max<int64_t>(*capacity_ - Used(), 0);
  if (growth <= 0 || excess <= 0) return size;
  return std::max<int64_t>(size - excess, 0);
}

int64_t FaultVfs::Used() const {
  int64_t used = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    used += static_cast<int64_t>(entry.file_size());
  }
  return used;
}

}  // namespace stockade::testing
