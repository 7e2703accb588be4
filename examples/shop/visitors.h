#ifndef STOCKADE_EXAMPLES_SHOP_VISITORS_H_
#define STOCKADE_EXAMPLES_SHOP_VISITORS_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "database.h"
#include "stockade/base/executor.h"

namespace shop {

// How a page finds its product.
using Lookup = std::function<absl::StatusOr<Product>(const std::string& id)>;

// The experience of a page's visitors.
struct Visits {
  int64_t errors = 0;  // "No such product" is none.
  absl::Duration slowest = absl::ZeroDuration();
};

// `visit` is called with 0 to count - 1, at the same moment, each on a thread of its own.
void AtOnce(int count, const std::function<void(int visitor)>& visit);

Visits VisitAtOnce(int count, const Lookup& lookup, const std::string& id);
Visits VisitOneByOne(int count, const Lookup& lookup, const std::string& id);

// Waits for what has been scheduled on a pool of one thread.
void Await(stockade::ThreadPool& pool);

// Prints a table. A number that varies from run to run has a ~ before it.
class Report {
 public:
  explicit Report(const Database* db);

  // The queries are those since the last line.
  void Line(const char* what, const Visits& visits);
  // The same, if the number of queries varies.
  void LineAbout(const char* what, const Visits& visits);

 private:
  void Print(const char* what, const char* mark, const Visits& visits);

  const Database* const db_;
  int64_t queries_ = 0;  // Before this line.
};

// For errors after which a small program cannot continue.
inline void OrExit(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "shop: %s\n", status.ToString().c_str());
  std::exit(2);
}

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  OrExit(value.status());
  return *std::move(value);
}

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_VISITORS_H_
