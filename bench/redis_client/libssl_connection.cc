#include "redis_client/libssl_connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stockade/base/log.h"

namespace stockade::bench {

void LibsslConnection::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

LibsslConnection::LibsslConnection(uint16_t port, const std::string& ca_file)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  SSL_CTX_load_verify_locations(context.get(), ca_file.c_str(), nullptr);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  ssl_.reset(SSL_new(context.get()));
  SSL_set_fd(ssl_.get(), fd_);
  X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), "127.0.0.1");
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || SSL_connect(ssl_.get()) != 1) {
    base_internal::Fatal("bench: libssl cannot connect to redis-server");
  }
}

LibsslConnection::~LibsslConnection() { close(fd_); }

void LibsslConnection::Call(std::string_view wire) {
  char reply[4096];
  size_t got = 0;
  if (SSL_write(ssl_.get(), wire.data(), static_cast<int>(wire.size())) != static_cast<int>(wire.size())) {
    base_internal::Fatal("bench: libssl cannot send");
  }
  // A string has one line more: its length.
  const auto whole = [&] {
    const std::string_view text(reply, got);
    const size_t line = text.find("\r\n");
    if (line == std::string_view::npos) return false;
    return text[0] != '$' || text.starts_with("$-1") || text.find("\r\n", line + 2) != std::string_view::npos;
  };
  do {
    size_t more = 0;
    if (SSL_read_ex(ssl_.get(), reply + got, sizeof reply - got, &more) != 1) {
      base_internal::Fatal("bench: libssl got no reply");
    }
    got += more;
  } while (!whole());
  if (reply[0] == '-') base_internal::Fatal("bench: libssl got an error");
}

}  // namespace stockade::bench
