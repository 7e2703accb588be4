#ifndef STOCKADE_TESTS_LOCKS_COMPANION_H_
#define STOCKADE_TESTS_LOCKS_COMPANION_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace stockade::testing {

// A thread that lives as long as this object and runs the functions that it is given, one after the other.
class Companion {
 public:
  Companion() : thread_([this] { Run(); }) {}
  ~Companion() {
    Do(nullptr);
    thread_.join();
  }

  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  // What `body` returns on that thread.
  template <typename Body>
  auto Ask(Body body) {
    decltype(body()) result{};
    Do([&] { result = body(); });
    return result;
  }
  void Do(const std::function<void()>& body) {
    std::unique_lock lock(mutex_);
    body_ = &body;
    changed_.notify_all();
    changed_.wait(lock, [&] { return body_ == nullptr; });
  }

 private:
  void Run() {
    for (bool ends = false; !ends;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return body_ != nullptr; });
      ends = *body_ == nullptr;
      if (!ends) (*body_)();
      body_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* body_ = nullptr;
  std::thread thread_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_COMPANION_H_
