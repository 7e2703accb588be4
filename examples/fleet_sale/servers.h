#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SERVERS_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SERVERS_H_

#include <memory>
#include <vector>

#include "common/own_mariadb.h"
#include "common/own_redis.h"
#include "shop.h"

namespace fleet_sale {

inline constexpr int kNodes = 3;

// The servers of the fleet: started by this program, each in a directory of its own, and stopped with the object. For
// one thread.
class Servers {
 public:
  // Starts all of them. MariaDB may not answer yet. Throws if one is not installed or does not start.
  Servers();

  ServerUrls urls() const;
  examples::OwnMariaDb& database() { return *database_; }
  examples::OwnRedis& node(int number) { return *nodes_[number]; }

  // Sends a command without arguments to a node: SAVE or FLUSHALL. Throws if it fails.
  void Command(int node, const char* name);

 private:
  std::vector<std::unique_ptr<examples::OwnRedis>> nodes_;
  std::unique_ptr<examples::OwnMariaDb> database_;
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SERVERS_H_
