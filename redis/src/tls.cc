#include "tls.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "now.h"
#include "socket.h"
#include "stockade/base/exit_gate.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

// What one call of SSL_write() encrypts, and what is then sent.
constexpr size_t kMaxChunk = size_t{64} << 10;
constexpr size_t kHeaderBytes = 5;
constexpr size_t kMaxRecordData = size_t{16} << 10;
// What one call takes from the socket. Together with a record of which the last byte is in it, its data fit into the
// buffer of Receive().
constexpr size_t kReceivedBytes = TlsChannel::kMinBuffer - kMaxRecordData;

// If the program has used OpenSSL before the first client did, OpenSSL cleans up at exit, and objects with static
// storage duration may live longer. OpenSSL begins that by closing the gate. What is left of connections leaks.
ExitGate& OpenSslGate() {
  static ExitGate& gate = *[] {
    (void)OPENSSL_atexit([] { OpenSslGate().Close(); });
    return new ExitGate;
  }();
  return gate;
}

template <typename T>
void FreeOrKeep(T* object, void (*free)(T*)) {
  if (const ExitGate::Inside inside(OpenSslGate()); inside) {
    free(object);
  } else {
    OpenSslGate().Keep(object);
  }
}

absl::Status Exiting() { return absl::UnavailableError("TLS: the process ends"); }

std::string ReasonOf(unsigned long error) {
  // An error of the system has no text of OpenSSL.
  if (ERR_SYSTEM_ERROR(error)) return std::generic_category().message(ERR_GET_REASON(error));
  const char* const reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : Concat("error ", error);
}

// The reason of the first error of this thread, and forgets all of them.
std::string TakeReason() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  return error == 0 ? "unknown error" : ReasonOf(error);
}

absl::Status CannotUse(std::string_view field, const std::string& file, std::string_view why) {
  return absl::InvalidArgumentError(
      Concat("RedisTlsOptions.", field, ": cannot use '", absl::CHexEscape(file), "': ", why));
}

// OpenSSL would ask for a passphrase on the terminal.
int RefusePassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return -1;
}

absl::Status LoadCertificate(const RedisTlsOptions& options, SSL_CTX* context) {
  if (options.cert_file.empty()) return absl::OkStatus();
  if (SSL_CTX_use_certificate_chain_file(context, options.cert_file.c_str()) != 1) {
    return CannotUse("cert_file", options.cert_file, TakeReason());
  }
  bool encrypted = false;
  SSL_CTX_set_default_passwd_cb(context, &RefusePassphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
  const bool loaded = SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) == 1 &&
                      SSL_CTX_check_private_key(context) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  SSL_CTX_set_default_passwd_cb(context, nullptr);
  if (loaded) return absl::OkStatus();
  const std::string reason = TakeReason();
  return CannotUse("key_file", options.key_file, encrypted ? Concat("the key is encrypted: ", reason) : reason);
}

absl::Status LoadCas(const RedisTlsOptions& options, SSL_CTX* context) {
  if (options.ca_file.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(Concat("RedisTlsOptions: cannot use the CAs of the system: ", TakeReason()));
  }
  if (SSL_CTX_load_verify_locations(context, options.ca_file.c_str(), nullptr) == 1) return absl::OkStatus();
  return CannotUse("ca_file", options.ca_file, TakeReason());
}

// Another text once a file is another one, or has been written.
std::string StampOf(const RedisTlsOptions& options) {
  std::string stamp;
  for (const std::string* file : {&options.ca_file, &options.cert_file, &options.key_file}) {
    struct stat state = {};
    if (file->empty() || stat(file->c_str(), &state) != 0) state = {};
    stamp += Concat(state.st_dev, " ", state.st_ino, " ", state.st_size, " ", state.st_mtim.tv_sec, " ",
                    state.st_mtim.tv_nsec, ";");
  }
  return stamp;
}

RedisTlsVerify VerifyOf(const RedisTlsOptions& options) { return options.verify.value_or(RedisTlsVerify::kFull); }

// The name that the certificate of `server` must be for: without the zone of an IPv6 address and the dot of the root.
std::string NameOf(const RedisTlsOptions& options, const RedisEndpoint& server) {
  if (!options.server_name.empty()) return options.server_name;
  std::string name = server.host.substr(0, server.host.find('%'));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool IsAddress(const std::string& name) {
  in6_addr parsed;
  return inet_pton(AF_INET, name.c_str(), &parsed) == 1 || inet_pton(AF_INET6, name.c_str(), &parsed) == 1;
}

// The names that a certificate is for, as errors show them: at most ten.
std::string NamesIn(const X509* certificate) {
  constexpr int kMostNames = 10;
  constexpr int kMostBytes = 255;
  std::string shown;
  auto* const names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names);
  for (int i = 0; i < std::min(count, kMostNames); ++i) {
    int type = 0;
    const auto* const value =
        static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type));
    if (type != GEN_DNS && type != GEN_IPADD) continue;
    const auto* const bytes = reinterpret_cast<const char*>(ASN1_STRING_get0_data(value));
    const int size = ASN1_STRING_length(value);
    std::string name(bytes, static_cast<size_t>(std::min(size, kMostBytes)));
    if (type == GEN_IPADD) {
      char text[INET6_ADDRSTRLEN] = "?";
      if (size == 4 || size == 16) inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
      name = text;
    }
    shown += Concat(shown.empty() ? "'" : ", '", absl::CHexEscape(name), "'");
  }
  GENERAL_NAMES_free(names);
  return shown.empty() ? "no host" : Concat(shown, count > kMostNames ? ", ..." : "");
}

// Whether the peer has ended the handshake with an alert (RFC 8446, 6.2) about the client's certificate, or for want of
// one.
bool IsAboutCertificate(int alert) {
  switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED: return true;
    default: return false;
  }
}

// False: not before `deadline`.
bool AwaitReady(int fd, short events, Instant deadline) {
  if (Now() >= deadline) return false;
  pollfd ready{.fd = fd, .events = events, .revents = 0};
  Poll({&ready, 1}, deadline);
  return true;
}

}  // namespace

void FreeTls::operator()(ssl_ctx_st* context) const { FreeOrKeep(context, SSL_CTX_free); }
void FreeTls::operator()(ssl_session_st* session) const { FreeOrKeep(session, SSL_SESSION_free); }
void FreeTls::operator()(ssl_st* ssl) const { FreeOrKeep(ssl, SSL_free); }

absl::StatusOr<std::shared_ptr<TlsContext>> TlsContext::Create(const RedisTlsOptions& options) {
  // A client may be destroyed, and connects until then, after OpenSSL would have cleaned up at the end of the process.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  const ExitGate::Inside inside(OpenSslGate());
  if (!inside) return Exiting();
  ERR_clear_error();
  std::unique_ptr<SSL_CTX, FreeTls> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::ResourceExhaustedError(Concat("redis: cannot use TLS: ", TakeReason()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  if (VerifyOf(options) != RedisTlsVerify::kNone) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    if (absl::Status loaded = LoadCas(options, context.get()); !loaded.ok()) return loaded;
  }
  if (absl::Status loaded = LoadCertificate(options, context.get()); !loaded.ok()) return loaded;
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context.get(), &TlsChannel::OnNewSession);
  return std::shared_ptr<TlsContext>(new TlsContext(options, std::move(context)));
}

TlsSession TlsContext::TakeSession(const std::string& server) {
  const MutexLock lock(mutex_);
  std::vector<TlsSession>& sessions = sessions_[server];
  if (sessions.empty()) return nullptr;
  if (SSL_SESSION_get_protocol_version(sessions.back().get()) < TLS1_3_VERSION) {
    SSL_SESSION_up_ref(sessions.back().get());
    return TlsSession(sessions.back().get());
  }
  TlsSession session = std::move(sessions.back());
  sessions.pop_back();
  return session;
}

void TlsContext::KeepSession(const std::string& server, TlsSession session) {
  const MutexLock lock(mutex_);
  if (sessions_.size() >= kMaxServers && !sessions_.contains(server)) sessions_.clear();
  std::vector<TlsSession>& sessions = sessions_[server];
  if (sessions.size() >= kMaxSessionsPerServer) sessions.erase(sessions.begin());
  sessions.push_back(std::move(session));
}

absl::StatusOr<std::shared_ptr<TlsConfig>> TlsConfig::Create(const RedisTlsOptions& options) {
  std::string stamp = StampOf(options);
  absl::StatusOr<std::shared_ptr<TlsContext>> context = TlsContext::Create(options);
  if (!context.ok()) return context.status();
  return std::shared_ptr<TlsConfig>(new TlsConfig(std::move(stamp), *std::move(context)));
}

std::shared_ptr<TlsContext> TlsConfig::Get() {
  const MutexLock lock(mutex_);
  std::string stamp = StampOf(context_->options());
  if (stamp == stamp_) return context_;
  absl::StatusOr<std::shared_ptr<TlsContext>> context = TlsContext::Create(context_->options());
  if (!context.ok()) return context_;
  stamp_ = std::move(stamp);
  return context_ = *std::move(context);
}

TlsChannel::TlsChannel(std::shared_ptr<TlsContext> context, const RedisEndpoint& server, int fd)
    : context_(std::move(context)),
      server_(server.ToString()),
      name_(NameOf(context_->options(), server)),
      fd_(fd),
      received_(kReceivedBytes) {}

absl::StatusOr<std::unique_ptr<TlsChannel>> TlsChannel::Open(std::shared_ptr<TlsContext> context,
                                                             const RedisEndpoint& server, int fd, Instant deadline) {
  std::unique_ptr<TlsChannel> channel(new TlsChannel(std::move(context), server, fd));
  absl::Status opened;
  {
    const MutexLock lock(channel->mutex_);
    opened = channel->Prepare();
  }
  if (opened.ok()) opened = channel->Handshake(deadline);
  if (opened.ok()) return channel;
  return absl::Status(opened.code(),
                      Concat("cannot connect to ", server.ToString(), " with TLS: ", std::string(opened.message())));
}

TlsChannel::~TlsChannel() { SayGoodbye(); }

void TlsChannel::SayGoodbye() {
  const MutexLock lock(mutex_);
  const ExitGate::Inside inside(OpenSslGate());
  if (ssl_ == nullptr || !inside) return;
  ERR_clear_error();
  if (established_ && broken_.ok() && unsent_begin_ == unsent_.size() && SSL_shutdown(ssl()) >= 0) {
    TakeEncrypted();
    (void)SendSome(fd_, unsent_);
  }
  ERR_clear_error();
  // Otherwise OpenSSL forbids to resume the session of a connection that has just broken.
  if (established_) SSL_set_shutdown(ssl(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

absl::Status TlsChannel::Prepare() {
  const ExitGate::Inside inside(OpenSslGate());
  if (!inside) return Exiting();
  ERR_clear_error();
  ssl_.reset(SSL_new(context_->get()));
  in_ = BIO_new(BIO_s_mem());
  out_ = BIO_new(BIO_s_mem());
  if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) {
    BIO_free(in_);
    BIO_free(out_);
    ssl_.reset();
    return absl::ResourceExhaustedError(TakeReason());
  }
  SSL_set_bio(ssl(), in_, out_);
  SSL_set_connect_state(ssl());
  SSL_set_app_data(ssl(), this);
  SSL_set_cert_cb(ssl(), &OnCertificateRequest, this);
  if (VerifyOf(context_->options()) != RedisTlsVerify::kNone) SSL_set_verify(ssl(), SSL_VERIFY_PEER, &OnVerified);
  const bool is_address = IsAddress(name_);
  bool named = is_address || SSL_set_tlsext_host_name(ssl(), name_.c_str()) == 1;
  if (VerifyOf(context_->options()) == RedisTlsVerify::kFull) {
    SSL_set_hostflags(ssl(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    named = named && (is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl()), name_.c_str()) == 1
                                 : SSL_set1_host(ssl(), name_.c_str()) == 1);
  }
  if (!named) return absl::InvalidArgumentError(Concat("no name for a certificate: '", absl::CHexEscape(name_), "'"));
  const TlsSession session = context_->TakeSession(server_);
  // One that OpenSSL does not take is one less: the handshake is a full one.
  if (session != nullptr) (void)SSL_set_session(ssl(), session.get());
  return absl::OkStatus();
}

absl::Status TlsChannel::Handshake(Instant deadline) {
  for (;;) {
    absl::Status failed;
    bool done = false;
    {
      const MutexLock lock(mutex_);
      const ExitGate::Inside inside(OpenSslGate());
      if (!inside) return Exiting();
      ERR_clear_error();
      const int result = SSL_do_handshake(ssl());
      done = established_ = result == 1;
      const int error = done ? SSL_ERROR_NONE : SSL_get_error(ssl(), result);
      if (!done && error != SSL_ERROR_WANT_READ) failed = FailureOf(error);
      TakeEncrypted();
    }
    if (!failed.ok()) {
      (void)Flush();  // The alert, from which the server knows why.
      return failed;
    }
    absl::Status flushed = FlushUntil(deadline);
    if (done) return flushed;
    // A server that takes no more bytes may have said why.
    if (absl::Status filled = FillUntil(deadline); !filled.ok()) return filled;
  }
}

absl::Status TlsChannel::FlushUntil(Instant deadline) {
  for (;;) {
    if (absl::Status flushed = Flush(); !flushed.ok()) return flushed;
    if (unsent_begin_ == unsent_.size()) return absl::OkStatus();
    if (!AwaitReady(fd_, POLLOUT, deadline)) return absl::UnavailableError("the TLS handshake timed out");
  }
}

absl::Status TlsChannel::FillUntil(Instant deadline) {
  for (;;) {
    absl::StatusOr<size_t> filled;
    bool heard = false;
    {
      const MutexLock lock(mutex_);
      const ExitGate::Inside inside(OpenSslGate());
      if (!inside) return Exiting();
      filled = Fill();
      heard = !first_bytes_.empty();
    }
    if (!filled.ok()) {
      return absl::Status(filled.status().code(),
                          Concat(std::string(filled.status().message()), " during the TLS handshake"));
    }
    if (*filled > 0) return absl::OkStatus();
    if (AwaitReady(fd_, POLLIN, deadline)) continue;
    return absl::UnavailableError(
        heard ? "the TLS handshake timed out"
              : "the TLS handshake timed out: the server says nothing, as one without TLS does");
  }
}

absl::Status TlsChannel::Flush() {
  while (unsent_begin_ < unsent_.size()) {
    const absl::StatusOr<size_t> sent = SendSome(fd_, std::string_view(unsent_).substr(unsent_begin_));
    if (!sent.ok()) return sent.status();
    if (*sent == 0) break;
    unsent_begin_ += *sent;
  }
  return absl::OkStatus();
}

void TlsChannel::TakeEncrypted() {
  unsent_.resize(BIO_ctrl_pending(out_));
  unsent_begin_ = 0;
  if (!unsent_.empty()) (void)BIO_read(out_, unsent_.data(), static_cast<int>(unsent_.size()));
}

absl::StatusOr<size_t> TlsChannel::Send(std::string_view bytes) {
  if (unsent_begin_ == unsent_.size()) {
    const MutexLock lock(mutex_);
    if (!broken_.ok()) return broken_;
    if (bytes.empty()) return 0;
    const ExitGate::Inside inside(OpenSslGate());
    if (!inside) return Exiting();
    ERR_clear_error();
    if (SSL_write_ex(ssl(), bytes.data(), std::min(bytes.size(), kMaxChunk), &encrypted_) != 1) {
      Break(FailureOf(SSL_get_error(ssl(), 0)));
      return broken_;
    }
    TakeEncrypted();
  }
  if (const absl::Status flushed = Flush(); !flushed.ok()) return flushed;
  return unsent_begin_ < unsent_.size() ? 0 : std::exchange(encrypted_, 0);
}

absl::StatusOr<size_t> TlsChannel::Receive(std::span<char> buffer) {
  const MutexLock lock(mutex_);
  const ExitGate::Inside inside(OpenSslGate());
  if (!inside) return Exiting();
  const absl::StatusOr<size_t> filled = Fill();
  absl::StatusOr<size_t> got = Decrypt(buffer);
  if (filled.ok() || !got.ok() || *got > 0) return got;
  // Replies that are whole have been given out, so nothing is taken for complete that is not.
  return broken_ = absl::UnavailableError(Concat(std::string(filled.status().message()), ", without an end of TLS"));
}

absl::StatusOr<bool> TlsChannel::DataCame() {
  const MutexLock lock(mutex_);
  const ExitGate::Inside inside(OpenSslGate());
  if (!inside) return Exiting();
  const absl::StatusOr<size_t> filled = Fill();
  // Without more bytes there is no data that Receive() has left.
  const bool more = filled.ok() && *filled > 0;
  char first = 0;
  const absl::StatusOr<size_t> got = more ? Decrypt({&first, 1}) : 0;
  if (!got.ok()) return got.status();
  if (!broken_.ok()) return broken_;
  if (*got > 0 || header_bytes_ > 0) return true;
  if (!filled.ok()) return filled.status();
  return false;
}

// What the socket has goes to OpenSSL, as much as Receive()'s buffer has room for once it is decrypted.
absl::StatusOr<size_t> TlsChannel::Fill() {
  absl::StatusOr<size_t> got = ReceiveSome(fd_, received_);
  if (!got.ok() || *got == 0) return got;
  TrackRecords({received_.data(), *got});
  if (BIO_write(in_, received_.data(), static_cast<int>(*got)) != static_cast<int>(*got)) {
    return absl::ResourceExhaustedError(Concat("TLS: ", TakeReason()));
  }
  return got;
}

absl::StatusOr<size_t> TlsChannel::Decrypt(std::span<char> buffer) {
  size_t got = 0;
  while (got < buffer.size() && broken_.ok()) {
    ERR_clear_error();
    size_t more = 0;
    if (SSL_read_ex(ssl(), buffer.data() + got, buffer.size() - got, &more) == 1) {
      got += more;
      // Otherwise it would say the same at the price of another call.
      if (SSL_pending(ssl()) == 0 && BIO_ctrl_pending(in_) == 0) break;
      continue;
    }
    const int error = SSL_get_error(ssl(), 0);
    if (error == SSL_ERROR_WANT_READ) break;
    Break(FailureOf(error));
  }
  if (got == 0 && !broken_.ok()) return broken_;
  return got;
}

void TlsChannel::Break(const absl::Status& why) {
  broken_ = why;
  (void)shutdown(fd_, SHUT_RD);
}

absl::Status TlsChannel::FailureOf(int error) {
  if (error == SSL_ERROR_ZERO_RETURN) return absl::UnavailableError("the server closed the connection");
  // OpenSSL's parts report before the one that speaks TLS, which says what it means.
  unsigned long failure = ERR_get_error();
  for (unsigned long next = failure; next != 0 && ERR_GET_LIB(failure) != ERR_LIB_SSL; next = ERR_get_error()) {
    if (ERR_GET_LIB(next) == ERR_LIB_SSL) failure = next;
  }
  ERR_clear_error();
  const std::string reason = failure == 0 ? Concat("error ", error) : ReasonOf(failure);
  if (ERR_GET_LIB(failure) == ERR_LIB_SSL && ERR_GET_REASON(failure) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    const long result = SSL_get_verify_result(ssl());
    const bool misnamed = result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH;
    return absl::UnauthenticatedError(
        Concat("the certificate of the server is refused: ", X509_verify_cert_error_string(result),
               misnamed ? Concat(": it is not for '", name_, "'; it is for ", certified_) : ""));
  }
  // OpenSSL adds this to the number of an alert.
  const int alert = ERR_GET_LIB(failure) == ERR_LIB_SSL ? ERR_GET_REASON(failure) - SSL_AD_REASON_OFFSET : -1;
  if (asked_for_certificate_ && alert >= 0 && context_->options().cert_file.empty()) {
    return absl::UnauthenticatedError(
        Concat("the server asks for a certificate of the client, and none is set: ", reason));
  }
  if (IsAboutCertificate(alert)) {
    return absl::UnauthenticatedError(Concat("the server refuses the certificate of the client: ", reason));
  }
  if (established_) return absl::UnavailableError(Concat("the connection broke: TLS: ", reason));
  // Records of TLS begin with 20 to 23.
  if (!first_bytes_.empty() && (first_bytes_[0] < 20 || first_bytes_[0] > 23)) {
    return absl::FailedPreconditionError(
        Concat("the server does not use TLS: it answers '", absl::CHexEscape(first_bytes_), "': ", reason));
  }
  return absl::FailedPreconditionError(Concat("TLS: ", reason));
}

void TlsChannel::TrackRecords(std::string_view bytes) {
  constexpr size_t kShownBytes = 32;
  if (!established_ && first_bytes_.empty()) {
    first_bytes_ = std::string(bytes.substr(0, std::min(bytes.find_first_of("\r\n"), kShownBytes)));
  }
  while (!bytes.empty()) {
    if (header_bytes_ < kHeaderBytes) {
      // The last two bytes of a header are the size of the body.
      if (header_bytes_ >= 3) body_left_ = body_left_ << 8 | static_cast<unsigned char>(bytes.front());
      ++header_bytes_;
      bytes.remove_prefix(1);
    } else {
      const size_t taken = std::min(body_left_, bytes.size());
      body_left_ -= taken;
      bytes.remove_prefix(taken);
    }
    if (header_bytes_ == kHeaderBytes && body_left_ == 0) header_bytes_ = 0;
  }
}

bool TlsChannel::resumed() const {
  const MutexLock lock(mutex_);
  const ExitGate::Inside inside(OpenSslGate());
  return inside && SSL_session_reused(ssl()) == 1;
}

// OpenSSL calls both within the handshake, or while it reads: with mutex_ held.
int TlsChannel::OnNewSession(ssl_st* ssl, ssl_session_st* session) {
  auto* const channel = static_cast<TlsChannel*>(SSL_get_app_data(ssl));
  channel->context_->KeepSession(channel->server_, TlsSession(session));
  return 1;  // The session is the context's now.
}

int TlsChannel::OnCertificateRequest(ssl_st* /*ssl*/, void* channel) {
  static_cast<TlsChannel*>(channel)->asked_for_certificate_ = true;
  return 1;
}

// OpenSSL keeps no certificate that it has refused.
int TlsChannel::OnVerified(int accepted, X509_STORE_CTX* chain) {
  const int error = X509_STORE_CTX_get_error(chain);
  if (accepted == 0 && (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH)) {
    SSL* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
    static_cast<TlsChannel*>(SSL_get_app_data(ssl))->certified_ = NamesIn(X509_STORE_CTX_get0_cert(chain));
  }
  return accepted;
}

}  // namespace stockade::redis_internal
