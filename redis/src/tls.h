#ifndef STOCKADE_REDIS_TLS_H_
#define STOCKADE_REDIS_TLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/redis/redis_endpoint.h"
#include "stockade/redis/redis_tls_options.h"

// OpenSSL's, so that its headers are needed in tls.cc only.
struct bio_st;
struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace stockade::redis_internal {

struct FreeTls {
  void operator()(ssl_ctx_st* context) const;
  void operator()(ssl_session_st* session) const;
  void operator()(ssl_st* ssl) const;
};
using TlsSession = std::unique_ptr<ssl_session_st, FreeTls>;

// What connections of a client have in common: the files as they were read, the checks, and the sessions that shorten
// the handshake of later connections to the same server. Thread-safe.
class TlsContext {
 public:
  // `options` are valid. InvalidArgument if a file cannot be used; names it, with OpenSSL's reason.
  static absl::StatusOr<std::shared_ptr<TlsContext>> Create(const RedisTlsOptions& options);

  const RedisTlsOptions& options() const { return options_; }
  ssl_ctx_st* get() const { return context_.get(); }

  // A session of an earlier connection to `server`; null: none. A session of TLS 1.3 is given out once, as RFC 8446
  // wants it (C.4). Sessions are kept per server because a resumed handshake does not check a certificate again.
  TlsSession TakeSession(const std::string& server) STOCKADE_EXCLUDES(mutex_);
  void KeepSession(const std::string& server, TlsSession session) STOCKADE_EXCLUDES(mutex_);

 private:
  static constexpr size_t kMaxSessionsPerServer = 4;
  static constexpr size_t kMaxServers = 1024;

  TlsContext(const RedisTlsOptions& options, std::unique_ptr<ssl_ctx_st, FreeTls> context)
      : options_(options), context_(std::move(context)) {}

  const RedisTlsOptions options_;
  const std::unique_ptr<ssl_ctx_st, FreeTls> context_;
  Mutex mutex_;
  std::map<std::string, std::vector<TlsSession>> sessions_ STOCKADE_GUARDED_BY(mutex_);  // The newest one last.
};

// A client's settings of TLS. Thread-safe.
class TlsConfig {
 public:
  // As TlsContext::Create().
  static absl::StatusOr<std::shared_ptr<TlsConfig>> Create(const RedisTlsOptions& options);

  // The context for a new connection. It is a new one, without sessions, if a file has changed since they were read. If
  // the files cannot be used then, which may be so while they are being replaced, it stays the same, and the next call
  // reads them again.
  std::shared_ptr<TlsContext> Get() STOCKADE_EXCLUDES(mutex_);

 private:
  TlsConfig(std::string stamp, std::shared_ptr<TlsContext> context)
      : stamp_(std::move(stamp)), context_(std::move(context)) {}

  Mutex mutex_;
  std::string stamp_ STOCKADE_GUARDED_BY(mutex_);  // Of the files that context_ has read.
  std::shared_ptr<TlsContext> context_ STOCKADE_GUARDED_BY(mutex_);
};

// TLS over one connected socket, which does not block. OpenSSL never touches the socket: it encrypts into one buffer in
// memory and decrypts from another, and this class moves the bytes. One thread may send while another receives.
//
// Invariants:
//  - An SSL object is not safe for two threads, not even for one that reads and one that writes. Only the holder of
//    mutex_ uses it. The socket is read with mutex_ held, so that records stay in order, and written without.
//  - Only the sender writes to the socket. If OpenSSL has to answer what the receiver read (TLS 1.3's KeyUpdate), the
//    answer leaves in front of the next bytes that are sent, which is when RFC 8446 (4.6.3) requires it. So a receiver
//    never waits until it can write, and a sender never waits until it can read. There is no renegotiation.
//  - After each call of Receive(), OpenSSL holds no record that could be decrypted: all data that has come has been
//    given out or is still in the socket, where poll(2) sees it. Once the connection is broken or closed by TLS, the
//    receiving half of the socket is shut down, so that poll(2) sees that, too.
//  - Bytes are encrypted once. Those that the socket did not take are kept here as they are.
class TlsChannel {
 public:
  // Receive() needs a buffer of at least so many bytes.
  static constexpr size_t kMinBuffer = size_t{64} << 10;

  // The handshake, which includes all checks of the server. Blocks until `deadline` at the most. `fd` must outlive the
  // channel. Unauthenticated if one side refuses the other's certificate, FailedPrecondition if they cannot agree on
  // TLS, or the server does not use it; Unavailable otherwise.
  static absl::StatusOr<std::unique_ptr<TlsChannel>> Open(std::shared_ptr<TlsContext> context,
                                                          const RedisEndpoint& server, int fd, Instant deadline);
  // Tells the server, if the socket takes that at once.
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  // How many of `bytes` have left; 0 if the socket is full. What is passed after that must begin with the same bytes.
  // For one thread at a time.
  absl::StatusOr<size_t> Send(std::string_view bytes) STOCKADE_EXCLUDES(mutex_);

  // Takes in what the socket has, at most 48 KiB, and gives out all data of it; 0 if there is none yet. Errors as
  // SendSome() and ReceiveSome() have them, and those of Open().
  absl::StatusOr<size_t> Receive(std::span<char> buffer) STOCKADE_EXCLUDES(mutex_);
  // For a connection on which nothing may come now: whether data has come, or a part of a record. Receives what the
  // protocol itself sends unasked (new sessions, KeyUpdate). If true, data is lost, and the connection is of no more
  // use. Any thread; does not wait.
  absl::StatusOr<bool> DataCame() STOCKADE_EXCLUDES(mutex_);

  // Whether the handshake resumed an earlier session.
  bool resumed() const STOCKADE_EXCLUDES(mutex_);

 private:
  TlsChannel(std::shared_ptr<TlsContext> context, const RedisEndpoint& server, int fd);

  // For each use of the SSL object. ThreadSanitizer does not see into OpenSSL, but it sees the counter.
  ssl_st* ssl() const STOCKADE_REQUIRES(mutex_) {
    ++uses_;
    return ssl_.get();
  }
  absl::Status Prepare() STOCKADE_REQUIRES(mutex_);
  absl::Status Handshake(Instant deadline) STOCKADE_EXCLUDES(mutex_);
  absl::Status Flush();
  absl::Status FlushUntil(Instant deadline);
  absl::Status FillUntil(Instant deadline) STOCKADE_EXCLUDES(mutex_);
  void TakeEncrypted() STOCKADE_REQUIRES(mutex_);
  absl::StatusOr<size_t> Fill() STOCKADE_REQUIRES(mutex_);
  absl::StatusOr<size_t> Decrypt(std::span<char> buffer) STOCKADE_REQUIRES(mutex_);
  void Break(const absl::Status& why) STOCKADE_REQUIRES(mutex_);
  absl::Status FailureOf(int error) STOCKADE_REQUIRES(mutex_);
  void TrackRecords(std::string_view bytes) STOCKADE_REQUIRES(mutex_);
  // Closes the connection by TLS's alert, if nothing is unsent.
  void SayGoodbye() STOCKADE_EXCLUDES(mutex_);

  static int OnNewSession(ssl_st* ssl, ssl_session_st* session);
  static int OnCertificateRequest(ssl_st* ssl, void* channel) STOCKADE_NO_THREAD_SAFETY_ANALYSIS;
  static int OnVerified(int accepted, x509_store_ctx_st* chain) STOCKADE_NO_THREAD_SAFETY_ANALYSIS;
  friend class TlsContext;  // Registers OnNewSession().

  const std::shared_ptr<TlsContext> context_;
  const std::string server_;  // Of its sessions.
  const std::string name_;    // That the certificate must be for.
  const int fd_;

  mutable Mutex mutex_;
  std::unique_ptr<ssl_st, FreeTls> ssl_ STOCKADE_GUARDED_BY(mutex_);
  mutable uint64_t uses_ STOCKADE_GUARDED_BY(mutex_) = 0;
  // Owned by ssl_. What came from the socket, and what is to go to it.
  bio_st* in_ STOCKADE_GUARDED_BY(mutex_) = nullptr;
  bio_st* out_ STOCKADE_GUARDED_BY(mutex_) = nullptr;
  std::vector<char> received_ STOCKADE_GUARDED_BY(mutex_);
  absl::Status broken_ STOCKADE_GUARDED_BY(mutex_);                 // Not OK: for good.
  bool established_ STOCKADE_GUARDED_BY(mutex_) = false;            // The handshake is over.
  bool asked_for_certificate_ STOCKADE_GUARDED_BY(mutex_) = false;  // By the server.
  std::string certified_ STOCKADE_GUARDED_BY(mutex_) = {};          // The names in a certificate that is for others.
  // Where in a record the last byte that came was: of its header, and how many of its body are missing.
  size_t header_bytes_ STOCKADE_GUARDED_BY(mutex_) = 0;
  size_t body_left_ STOCKADE_GUARDED_BY(mutex_) = 0;
  std::string first_bytes_ STOCKADE_GUARDED_BY(mutex_);  // That came, before any was TLS.

  // The sender's.
  std::string unsent_;  // Encrypted; from unsent_begin_ on.
  size_t unsent_begin_ = 0;
  size_t encrypted_ = 0;  // How many bytes of the caller are in unsent_.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_TLS_H_
