#ifndef STOCKADE_TESTS_SUPPORT_PROCESS_COUNTS_H_
#define STOCKADE_TESTS_SUPPORT_PROCESS_COUNTS_H_

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

namespace stockade::testing {

// Invokes `visit` with the name of each entry of a folder of /proc, whose entries come and go meanwhile.
template <typename Visit>
void VisitEntries(const char* folder, const Visit& visit) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    visit(at->path().filename().string());
  }
}

// Of this process. Others may begin and end while they are counted.
inline size_t CountThreads() {
  size_t threads = 0;
  VisitEntries("/proc/self/task", [&](const std::string&) { ++threads; });
  return threads;
}
inline size_t CountDescriptors() {
  size_t descriptors = 0;
  VisitEntries("/proc/self/fd", [&](const std::string&) { ++descriptors; });
  return descriptors;
}

// The port of a socket's own end (getsockname) or of the other one (getpeername). 0: none of IPv4.
template <typename GetName>
uint16_t PortOf(int fd, GetName get_name) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  const bool got = get_name(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  return got && address.sin_family == AF_INET ? ntohs(address.sin_port) : 0;
}

// Counts threads and descriptors of this process until it is destroyed, and keeps the largest numbers. The descriptors
// of a server within this process, which has `port`, do not count: a server may find later that a client has closed.
class ProcessWatch {
 public:
  explicit ProcessWatch(uint16_t port) : port_(port), thread_([this] { Watch(); }) {}
  ~ProcessWatch() { End(); }

  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // The numbers below are valid after this.
  void End() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
  }
  size_t most_connections() const { return most_connections_; }  // To `port`.
  // Beyond those at the beginning, which include the thread that counts.
  size_t more_threads() const { return most_threads_ - threads_before_; }
  size_t more_descriptors() const { return most_descriptors_ - descriptors_before_; }

 private:
  void Watch() {
    Count();
    threads_before_ = most_threads_;
    descriptors_before_ = most_descriptors_;
    while (!ending_) {
      poll(nullptr, 0, 2);
      Count();
    }
  }
  void Count() {
    size_t threads = 0;
    VisitEntries("/proc/self/task", [&](const std::string&) { ++threads; });
    size_t descriptors = 0;
    size_t connections = 0;
    VisitEntries("/proc/self/fd", [&](const std::string& name) {
      const int fd = std::atoi(name.c_str());
      const bool to_server = PortOf(fd, getpeername) == port_;
      // Last, because another thread may close it meanwhile.
      if (PortOf(fd, getsockname) == port_ || fcntl(fd, F_GETFD) < 0) return;
      ++descriptors;
      if (to_server) ++connections;
    });
    most_threads_ = std::max(most_threads_, threads);
    most_descriptors_ = std::max(most_descriptors_, descriptors);
    most_connections_ = std::max(most_connections_, connections);
  }

  const uint16_t port_;
  std::atomic<bool> ending_ = false;
  // The thread's, until End() has returned.
  size_t threads_before_ = 0;
  size_t descriptors_before_ = 0;
  size_t most_threads_ = 0;
  size_t most_descriptors_ = 0;
  size_t most_connections_ = 0;
  std::thread thread_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_PROCESS_COUNTS_H_
