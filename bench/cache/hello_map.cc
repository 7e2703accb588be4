// The program of examples/quickstart/cache.cc with a map and a mutex: the peer of the rows in build_rows.cc. It holds
// the mutex while it queries, so it is as short as such a program can be.
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

int main() {
  int queries = 0;
  std::mutex mutex;
  std::unordered_map<std::string, std::string> pages;
  auto get = [&](const std::string& id) {
    const std::lock_guard lock(mutex);
    const auto [page, is_new] = pages.try_emplace(id);
    if (is_new) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      page->second = "page " + id + " of query " + std::to_string(++queries);
    }
    return page->second;
  };
  std::vector<std::jthread> visitors(100);
  for (std::jthread& visitor : visitors) visitor = std::jthread([&] { (void)get("shoe-1"); });
  visitors.clear();
  std::printf("%s, 101 visitors\n", get("shoe-1").c_str());
}
