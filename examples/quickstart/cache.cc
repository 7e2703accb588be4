// $ g++ -std=c++20 -O2 cache.cc -o cache $(pkg-config --cflags --libs stockade-cache)
// $ ./cache
// page shoe-1 of query 1, 101 visitors
#include <cstdio>
#include <thread>

#include "stockade/cache/loading_cache.h"

int main() {
  int queries = 0;
  auto load = [&](const std::string& id) -> absl::StatusOr<std::string> {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // Your database query.
    return "page " + id + " of query " + std::to_string(++queries);
  };
  stockade::LoadingCache<std::string, std::string> pages({.name = "pages", .ttl = std::chrono::minutes(5)}, load);
  std::vector<std::jthread> visitors(100);
  for (std::jthread& visitor : visitors) visitor = std::jthread([&] { (void)pages.Get("shoe-1"); });
  visitors.clear();  // Joins the threads.
  if (auto page = pages.Get("shoe-1"); page.ok()) std::printf("%s, 101 visitors\n", (*page)->c_str());
}
