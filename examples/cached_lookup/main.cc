// A product lookup under load, from naive to protected, with what each step costs the database and the callers.

#include <cstdio>
#include <string>
#include <vector>

#include "steps.h"

namespace cached_lookup {
namespace {

void Print(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::printf("%-4s  %-31s  %7lld  %7.2f ms  %6lld\n", row.step.c_str(), row.what.c_str(),
                static_cast<long long>(row.queries), absl::ToDoubleMilliseconds(row.slowest),
                static_cast<long long>(row.errors));
  }
}

void Run() {
  std::printf("%d threads, %d times to live, a query takes 2 ms\n", kThreads, kLifetimes);
  std::printf("step  %-31s  queries     slowest  errors\n", "what was added");
  for (const auto step : {Step1NoCache, Step2TtlMap, Step3LoadingCache, Step4RefreshAhead, Step5NegativeTtl,
                          Step6StaleIfError, Step7GetAll, Step8Invalidation}) {
    Print(step());
  }
}

}  // namespace
}  // namespace cached_lookup

int main(int argc, char**) {
  if (argc > 1) {
    std::fprintf(stderr, "usage: cached_lookup\n");
    return 2;
  }
  cached_lookup::Run();
}
