#include "visitors.h"

#include <algorithm>
#include <cstddef>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace shop {
namespace {

void Visit(const Lookup& lookup, const std::string& id, std::mutex& mutex, Visits& visits) {
  const absl::Time begun = absl::Now();
  const absl::Status found = lookup(id).status();
  const absl::Duration took = absl::Now() - begun;
  const std::lock_guard lock(mutex);
  visits.slowest = std::max(visits.slowest, took);
  if (!found.ok() && !absl::IsNotFound(found)) ++visits.errors;
}

}  // namespace

void AtOnce(int count, const std::function<void(int)>& visit) {
  std::latch line_up(count);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int visitor = 0; visitor < count; ++visitor) {
    threads.emplace_back([&, visitor] {
      line_up.arrive_and_wait();
      visit(visitor);
    });
  }
}

Visits VisitAtOnce(int count, const Lookup& lookup, const std::string& id) {
  std::mutex mutex;
  Visits visits;
  AtOnce(count, [&](int) { Visit(lookup, id, mutex, visits); });
  return visits;
}

Visits VisitOneByOne(int count, const Lookup& lookup, const std::string& id) {
  std::mutex mutex;
  Visits visits;
  for (int visitor = 0; visitor < count; ++visitor) Visit(lookup, id, mutex, visits);
  return visits;
}

void Await(stockade::ThreadPool& pool) {
  std::latch done(1);
  pool.Schedule([&] { done.count_down(); });
  done.wait();
}

Report::Report(const Database* db) : db_(db) {
  std::printf("%-46s %7s  %6s  %10s\n", "", "queries", "errors", "slowest");
}

void Report::Line(const char* what, const Visits& visits) { Print(what, "", visits); }

void Report::LineAbout(const char* what, const Visits& visits) { Print(what, "~", visits); }

void Report::Print(const char* what, const char* mark, const Visits& visits) {
  const int64_t queries = db_->queries();
  std::printf("%-46s %7s  %6s  %10s\n", what, absl::StrCat(mark, queries - queries_).c_str(),
              absl::StrCat(visits.errors).c_str(),
              absl::StrFormat("~%.1f ms", absl::ToDoubleMilliseconds(visits.slowest)).c_str());
  queries_ = queries;
}

}  // namespace shop
