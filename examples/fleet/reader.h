#ifndef STOCKADE_EXAMPLES_FLEET_READER_H_
#define STOCKADE_EXAMPLES_FLEET_READER_H_

#include <string>

namespace fleet {

inline constexpr int kThreads = 8;

// How a process gets the product.
enum class How { kNoCache, kOwnCache, kFleet };

struct ReaderPlan {
  How how = How::kNoCache;
  int number = 0;         // The process's row in the database.
  std::string database;   // The path of its file.
  std::string redis_url;  // For kFleet.
};

// One process of the fleet: all its threads read the hot key until the database says stop. Exits with 2 on an error.
void RunReader(const ReaderPlan& plan);

}  // namespace fleet

#endif  // STOCKADE_EXAMPLES_FLEET_READER_H_
