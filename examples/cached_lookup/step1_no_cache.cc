#include "steps.h"

namespace cached_lookup {

std::vector<Row> Step1NoCache() {
  Setting setting;
  const auto lookup = [&](int id) { return setting.db.Find(id); };
  return {Named("1", "no cache", AskForOne(setting, lookup, 1))};
}

}  // namespace cached_lookup
