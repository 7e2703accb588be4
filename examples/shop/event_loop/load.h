#ifndef STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_LOAD_H_
#define STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_LOAD_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace shop {

inline constexpr int kUsers = 1000;

struct LoadOptions {
  uint16_t port = 0;
  int connections = 1000;
  std::chrono::milliseconds duration = std::chrono::seconds(3);
  // Requests a second, of all connections together. 0: each connection sends its next one once it has the answer.
  double rate = 0;
  int orders_percent = 5;  // The others look at a product.
  std::string name;        // Begins the ids of the requests.
};

struct LoadReport {
  int64_t answers = 0;
  std::map<int, int64_t> of_status;
  int64_t broken = 0;  // Connections that ended.
  std::vector<std::chrono::microseconds> took;
  std::chrono::duration<double> lasted{};

  double per_second() const { return static_cast<double>(answers) / lasted.count(); }
  // Later than `limit`.
  int64_t Late(std::chrono::microseconds limit) const;
};

// Sends requests from an event loop on this thread, and returns once each is answered. Throws asio::system_error if it
// cannot connect.
LoadReport RunLoad(const LoadOptions& options);

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_LOAD_H_
