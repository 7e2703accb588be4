#include "hold_table.h"

namespace stockade::locks_internal {
namespace {

HoldKey RecordKey(HoldKey key) {
  if (key.kind == LockKind::kFair) key.kind = LockKind::kReentrant;
  return key;
}

}  // namespace

std::shared_ptr<HoldRecord> HoldTable::Pin(HoldKey key) {
  key = RecordKey(std::move(key));
  Shard& shard = ShardOf(key);
  const MutexLock lock(shard.mutex);
  std::shared_ptr<HoldRecord>& record = shard.records[key];
  if (record == nullptr) record = std::make_shared<HoldRecord>(key);
  ++record->users;
  return record;
}

void HoldTable::PinAgain(HoldRecord& record) {
  Shard& shard = ShardOf(record.key);
  const MutexLock lock(shard.mutex);
  ++record.users;
}

void HoldTable::Unpin(HoldRecord& record) {
  Shard& shard = ShardOf(record.key);
  std::shared_ptr<HoldRecord> last;  // Declared first: destroyed after the mutex is let go.
  const MutexLock lock(shard.mutex);
  if (--record.users > 0) return;
  const auto entry = shard.records.find(record.key);
  last = std::move(entry->second);
  shard.records.erase(entry);
}

std::shared_ptr<ServiceHold> HoldTable::Find(const HoldKey& key) {
  const HoldKey record_key = RecordKey(key);
  std::shared_ptr<HoldRecord> record;
  {
    Shard& shard = ShardOf(record_key);
    const MutexLock lock(shard.mutex);
    const auto entry = shard.records.find(record_key);
    if (entry == shard.records.end()) return nullptr;
    record = entry->second;
  }
  return record->HoldAs(key.kind);
}

std::vector<std::shared_ptr<ServiceHold>> HoldTable::All() {
  std::vector<std::shared_ptr<ServiceHold>> holds;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [key, record] : shard.records) {
      if (std::shared_ptr<ServiceHold> hold = record->CurrentHold(); hold != nullptr) holds.push_back(std::move(hold));
    }
  }
  return holds;
}

}  // namespace stockade::locks_internal
