#include "hold_table.h"

namespace stockade::internal {

std::shared_ptr<HoldRecord> HoldTable::Pin(const HoldKey& key) {
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  std::shared_ptr<HoldRecord>& record = shard.records[key];
  if (record == nullptr) record = std::make_shared<HoldRecord>(key);
  ++record->users;
  return record;
}

void HoldTable::PinAgain(HoldRecord& record) {
  Shard& shard = ShardOf(record.key);
  const std::lock_guard lock(shard.mutex);
  ++record.users;
}

void HoldTable::Unpin(HoldRecord& record) {
  Shard& shard = ShardOf(record.key);
  std::shared_ptr<HoldRecord> last;  // Declared first: destroyed after the mutex is let go.
  const std::lock_guard lock(shard.mutex);
  if (--record.users > 0) return;
  const auto entry = shard.records.find(record.key);
  last = std::move(entry->second);
  shard.records.erase(entry);
}

std::shared_ptr<ServiceHold> HoldTable::Find(const HoldKey& key) {
  std::shared_ptr<HoldRecord> record;
  {
    Shard& shard = ShardOf(key);
    const std::lock_guard lock(shard.mutex);
    const auto entry = shard.records.find(key);
    if (entry == shard.records.end()) return nullptr;
    record = entry->second;
  }
  return record->CurrentHold();
}

std::vector<std::shared_ptr<ServiceHold>> HoldTable::All() {
  std::vector<std::shared_ptr<ServiceHold>> holds;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [key, record] : shard.records) {
      if (std::shared_ptr<ServiceHold> hold = record->CurrentHold(); hold != nullptr) holds.push_back(std::move(hold));
    }
  }
  return holds;
}

}  // namespace stockade::internal
