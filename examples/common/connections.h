#ifndef STOCKADE_EXAMPLES_COMMON_CONNECTIONS_H_
#define STOCKADE_EXAMPLES_COMMON_CONNECTIONS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_set>

namespace examples {

// The connections of a server that has a thread for some of them. When more than that are accepted, the connection that
// has made the server wait the longest is shut down to make room: a client that sends nothing, or slowly, or does not
// read its answer. A connection whose request is being worked on is never shut down. Thread-safe.
class Connections {
 public:
  // `threads` serve connections; at most `most` are accepted, those included that wait for a thread.
  Connections(size_t threads, size_t most) : threads_(threads), most_(most) {}

  // Counts a connection. Blocks while there are `most` of them.
  void Accept();
  // A thread begins to serve the connection `fd`. False: the server stops.
  bool Open(int fd);
  // Ends what Accept() began. Must precede close(fd), after which another connection may have that number.
  void Close(int fd);
  // Shuts all connections down, and lets no further one be opened.
  void Stop();

  // A larger number for each later request: the order in which connections that wait are shut down.
  uint64_t NextTurn();

  // The connection waits for its client, to send or to receive, for as long as this object lives.
  class Wait {
   public:
    Wait(Connections& connections, uint64_t turn, int fd);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Connections& connections_;
    const uint64_t turn_;
  };

 private:
  // With mutex_ held.
  void MakeRoom();

  const size_t threads_;
  const size_t most_;
  std::mutex mutex_;  // Guards all that follows.
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t turns_ = 0;
  size_t accepted_ = 0;                // Accepted and not closed.
  std::unordered_set<int> open_;       // Those that a thread serves.
  std::unordered_set<int> shut_down_;  // Of open_, those that MakeRoom() has shut down.
  std::map<uint64_t, int> waiting_;    // By turn, of open_ without shut_down_.
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_CONNECTIONS_H_
