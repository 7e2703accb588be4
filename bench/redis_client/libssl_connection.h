#ifndef STOCKADE_BENCH_REDIS_CLIENT_LIBSSL_CONNECTION_H_
#define STOCKADE_BENCH_REDIS_CLIENT_LIBSSL_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct ssl_st;

namespace stockade::bench {

// A connection with TLS to a Redis server on 127.0.0.1, as a loop over libssl has it: a blocking socket that OpenSSL
// reads and writes itself, no deadline, and no parser. For one thread.
class LibsslConnection {
 public:
  // Aborts if it cannot be had. The server's certificate must be for 127.0.0.1, and signed by that of `ca_file`.
  LibsslConnection(uint16_t port, const std::string& ca_file);
  ~LibsslConnection();
  LibsslConnection(const LibsslConnection&) = delete;
  LibsslConnection& operator=(const LibsslConnection&) = delete;

  // Sends a command and waits for its reply, a status or a string of less than 4 KiB. Aborts if there is none.
  void Call(std::string_view wire);

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  int fd_;
  std::unique_ptr<ssl_st, Free> ssl_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_REDIS_CLIENT_LIBSSL_CONNECTION_H_
