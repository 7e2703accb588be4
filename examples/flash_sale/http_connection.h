#ifndef STOCKADE_EXAMPLES_FLASH_SALE_HTTP_CONNECTION_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_HTTP_CONNECTION_H_

#include <httplib.h>

#include <array>
#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "stockade/base/instant.h"

namespace flash_sale {

// A socket whose reads and writes end at a deadline, and whose reads end after so many bytes. One thread.
class HttpConnection final : public httplib::Stream {
 public:
  // Does not close `fd`.
  explicit HttpConnection(socket_t fd);

  // Whether there is something to read before `idle` has passed.
  bool AwaitRequest(absl::Duration idle);
  // From here on a request and its answer have so many bytes to read, and so long.
  void BeginRequest(size_t bytes, absl::Duration time);
  // A read of the request met the client's end, the deadline or the last byte it may have.
  bool cut_short() const { return cut_short_; }
  // The last is why.
  bool too_long() const { return cut_short_ && bytes_left_ == 0; }
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

  const socket_t fd_;
  stockade::Instant deadline_ = stockade::Instant::InfinitePast();
  size_t bytes_left_ = 0;
  bool cut_short_ = false;
  bool answered_ = false;
  // What was received and not read yet: buffer_[begin_, end_).
  std::array<char, 4096> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_HTTP_CONNECTION_H_
