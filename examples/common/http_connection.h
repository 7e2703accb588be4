#ifndef STOCKADE_EXAMPLES_COMMON_HTTP_CONNECTION_H_
#define STOCKADE_EXAMPLES_COMMON_HTTP_CONNECTION_H_

#include <httplib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/connections.h"
#include "stockade/base/instant.h"

namespace examples {

// A socket whose reads and writes end at a deadline, and of which requests' heads are received whole before httplib
// reads them. One thread.
class HttpConnection final : public httplib::Stream {
 public:
  static constexpr size_t kMostHeadBytes = 32'768;
  static constexpr size_t kMostHeaderBytes = CPPHTTPLIB_HEADER_MAX_LENGTH;  // Of one header: 8 KiB.

  // Does not close `fd`, which is open in `connections`.
  HttpConnection(socket_t fd, Connections* connections);

  // Whether there is something to read before `idle` has passed.
  bool AwaitRequest(absl::Duration idle);
  // Receives a request's head. From here on the request and its answer have so long. False: the head, or one of its
  // headers, is too long.
  bool ReceiveHead(absl::Duration time);
  // The head that ReceiveHead() has received, until the next read; empty if the end of the head did not come.
  std::string_view head() const { return {buffer_.data(), head_size_}; }
  // A read of the request met the client's end or the deadline.
  bool cut_short() const { return cut_short_; }
  bool answered() const { return answered_; }

  // After the last answer: lets a client that still sends read it. Closing at once would reset the connection.
  void Linger();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  using httplib::Stream::write;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return fd_; }

 private:
  bool Await(short events, stockade::Instant deadline) const;

  // Whether bytes came.
  bool Receive();

  const socket_t fd_;
  Connections* const connections_;
  uint64_t turn_ = 0;  // Of the request, from the wait for it on.
  stockade::Instant deadline_ = stockade::Instant::InfinitePast();
  bool cut_short_ = false;
  bool answered_ = false;
  // The bytes that were received and not read yet: buffer_[begin_, end_).
  std::array<char, kMostHeadBytes> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t head_size_ = 0;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_HTTP_CONNECTION_H_
