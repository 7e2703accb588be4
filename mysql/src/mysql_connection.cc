#include "stockade/mysql/internal/mysql_connection.h"

#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <mysql.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "mysql_login.h"
#include "mysql_tls_check.h"
#include "stockade/base/clock.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/exit_gate.h"
#include "stockade/base/process_name.h"
#include "stockade/base/strings.h"

// Exported by the connector since its version 3.0, but declared in no header that is installed.
extern "C" int ma_pvio_register_callback(my_bool register_callback,
                                         void (*callback)(int mode, MYSQL* session, const unsigned char* bytes,
                                                          size_t size));

namespace stockade::mysql_internal {
namespace {

// Replaces the server's defaults. A wait for a row or for a table's definition ends after 1 s, the smallest value. The
// transaction stays open after such a wait, until the client sends ROLLBACK. If the client does not send it, MariaDB
// ends the transaction after 5 s; MySQL has no such setting and ends it with the connection. sql_mode and
// completion_type make statements and COMMIT behave alike on all servers.
constexpr std::string_view kSessionSettings =
    "SET SESSION autocommit=1, sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone='+00:00', "
    "innodb_lock_wait_timeout=1, lock_wait_timeout=1, completion_type='NO_CHAIN', sql_safe_updates=0, "
    "sql_quote_show_create=1"
    "/*M!100300 , idle_transaction_timeout=5 */; "
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";

// Longer than a tick of any clock of a server.
constexpr absl::Duration kCoarseClock = absl::Milliseconds(50);

constexpr const char kLate[] = "MySQL did not answer in time";

// The limit of the current call. It belongs to the thread, because the connector passes no argument to AwaitSocket().
struct WaitLimit {
  Instant deadline = Instant::InfinitePast();
  int stop_fd = -1;
  bool connecting = false;
  const MySqlConnection::Meanwhile* meanwhile = nullptr;
};
thread_local WaitLimit wait_limit;

// What the server sends before the client does: one packet. Of the connection that is being opened by this thread.
struct Greeting {
  bool expected = false;
  bool tls = false;       // The connection will have TLS, so nothing may follow in clear.
  size_t read = 0;        // Bytes.
  size_t length = 0;      // Of the packet, from its first three bytes.
  bool is_error = false;  // From its fifth byte.
};
thread_local Greeting greeting;

// Neither a greeting nor what follows it may fool the connector:
// - It takes bytes that it has read together with the greeting for bytes that came by TLS. So the connection is ended.
// - It ends the process on a report of progress in place of the greeting, an error of the number 65535, because it does
//   not know the server's version yet. So that error gets another number.
void CheckGreeting(MYSQL* session, unsigned char* bytes, size_t size) {
  constexpr size_t kHead = 4;
  for (size_t i = 0; i < size && greeting.read + i < kHead + 2; ++i) {
    const size_t at = greeting.read + i;
    if (at < kHead - 1) greeting.length |= size_t{bytes[i]} << 8 * at;
    if (at == kHead) greeting.is_error = bytes[i] == 0xff;
    if (at == kHead + 1 && greeting.is_error && bytes[i] == 0xff) bytes[i] = 0;
  }
  greeting.read += size;
  if (greeting.tls && greeting.read > kHead + greeting.length) shutdown(mysql_get_socket(session), SHUT_RDWR);
}

class ScopedWaitLimit {
 public:
  explicit ScopedWaitLimit(const WaitLimit& limit) : before_(wait_limit) { wait_limit = limit; }
  ~ScopedWaitLimit() { wait_limit = before_; }
  ScopedWaitLimit(const ScopedWaitLimit&) = delete;
  ScopedWaitLimit& operator=(const ScopedWaitLimit&) = delete;

 private:
  const WaitLimit before_;
};

// How long to wait until the next call of it.
absl::Duration CallMeanwhile() {
  if (wait_limit.meanwhile == nullptr || *wait_limit.meanwhile == nullptr) return absl::InfiniteDuration();
  const Greeting ours = greeting;
  const MySqlConnection::Meanwhile* const meanwhile = std::exchange(wait_limit.meanwhile, nullptr);
  const absl::Duration next = (*meanwhile)();
  wait_limit.meanwhile = meanwhile;
  greeting = ours;
  return next;
}

// The connector calls this if the socket is not ready. Returns 1 when it is, and 0 to give up. Ignores the connector's
// own time-out.
int AwaitSocket(my_socket socket, my_bool is_read, int /*timeout_ms*/) {
  if (wait_limit.connecting) fcntl(socket, F_SETFD, FD_CLOEXEC);  // The connector does not.
  for (;;) {
    const Instant until = std::min(wait_limit.deadline, Clock::System()->Now() + CallMeanwhile());
    const absl::Duration left = std::clamp(until - Clock::System()->Now(), absl::ZeroDuration(), absl::Hours(1));
    const timespec timeout = absl::ToTimespec(left);
    pollfd fds[] = {{.fd = socket, .events = static_cast<short>(is_read ? POLLIN : POLLOUT), .revents = 0},
                    {.fd = wait_limit.stop_fd, .events = POLLIN, .revents = 0}};
    const int ready = ppoll(fds, 2, &timeout, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (fds[0].revents != 0) return 1;
    if (ready == 0 && Clock::System()->Now() < wait_limit.deadline) continue;
    errno = ETIMEDOUT;
    return 0;
  }
}

// The connector calls this after each read (mode 0, into memory of its own) and write (mode 1) of any connection.
void AfterTransfer(int mode, MYSQL* session, const unsigned char* bytes, size_t size) {
  if (wait_limit.deadline == Instant::InfinitePast()) return;  // Not our connection, or it is being closed.
  // A server that sends without end keeps the connector from waiting, and so from AwaitSocket().
  if (Clock::System()->Now() >= wait_limit.deadline) shutdown(mysql_get_socket(session), SHUT_RDWR);
  if (!greeting.expected) return;
  if (mode != 0) {
    greeting.expected = false;
  } else if (static_cast<ssize_t>(size) > 0) {
    CheckGreeting(session, const_cast<unsigned char*>(bytes), size);
  }
}

// For the connector's own time-outs, which apply only in the middle of a TLS handshake.
unsigned WholeSeconds(absl::Duration span) {
  return static_cast<unsigned>(std::clamp<int64_t>(absl::ToInt64Seconds(absl::Ceil(span, absl::Seconds(1))), 1, 3600));
}

template <typename T>
void SetOption(MYSQL* session, mysql_option option, const T& value) {
  mysql_optionsv(session, option, &value);
}

void SetFile(MYSQL* session, mysql_option option, const std::string& file) {
  if (!file.empty()) mysql_optionsv(session, option, file.c_str());
}

void SetOptions(MYSQL* session, const MySqlTarget& target) {
  mysql_optionsv(session, MARIADB_OPT_IO_WAIT, reinterpret_cast<void*>(&AwaitSocket));
  for (const mysql_option option : {MYSQL_OPT_CONNECT_TIMEOUT, MYSQL_OPT_READ_TIMEOUT, MYSQL_OPT_WRITE_TIMEOUT}) {
    SetOption(session, option, WholeSeconds(target.connect_timeout));
  }
  SetOption(session, MYSQL_OPT_PROTOCOL,
            static_cast<unsigned>(target.socket.empty() ? MYSQL_PROTOCOL_TCP : MYSQL_PROTOCOL_SOCKET));
  mysql_optionsv(session, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  mysql_optionsv(session, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", base_internal::ProgramName().c_str());
  const my_bool yes = 1;
  const my_bool no = 0;
  SetOption(session, MYSQL_OPT_RECONNECT, no);
  SetOption(session, MYSQL_OPT_LOCAL_INFILE, 0U);  // No server gets a file of this machine.
  const size_t packet = MySqlReading::kMaxBytes;
  SetOption(session, MYSQL_OPT_MAX_ALLOWED_PACKET, packet);
  SetOption(session, MYSQL_OPT_SSL_ENFORCE, target.tls == MySqlTls::kOff ? no : yes);
  SetOption(session, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, target.tls == MySqlTls::kVerify ? yes : no);
  if (target.tls == MySqlTls::kOff) return;
  SetFile(session, MYSQL_OPT_SSL_CA, target.tls_ca_file);
  SetFile(session, MYSQL_OPT_SSL_CERT, target.tls_cert_file);
  SetFile(session, MYSQL_OPT_SSL_KEY, target.tls_key_file);
}

// The connector's errors of TLS name neither the files nor the host that they are about.
std::string TlsSettings(const MySqlTarget& target, unsigned error) {
  if (error != CR_SSL_CONNECTION_ERROR) return "";
  std::string settings = Concat(" (the certificate must be for '", target.host, "'");
  for (const auto& [name, file] :
       {std::pair("tls_ca", &target.tls_ca_file), std::pair("tls_cert", &target.tls_cert_file),
        std::pair("tls_key", &target.tls_key_file)}) {
    if (!file->empty()) settings += Concat(", ", name, "=", *file);
  }
  return settings + ")";
}

absl::StatusCode CodeOf(unsigned error, std::string_view text) {
  if (error == CR_SSL_CONNECTION_ERROR) return MeaningOfTlsError(text);
  if (IsMySqlClientError(error) && OutOfDescriptors()) return absl::StatusCode::kResourceExhausted;
  return MeaningOfMySqlError(error).code;
}

// If the program has used OpenSSL before the first connection with TLS did, OpenSSL cleans up at exit, and objects with
// static storage duration may live longer. OpenSSL begins that by closing the gate. What is left of connections leaks.
ExitGate& OpenSslGate() {
  static ExitGate& gate = *[] {
    (void)OPENSSL_atexit([] { OpenSslGate().Close(); });
    return new ExitGate;
  }();
  return gate;
}

absl::Status Exiting() { return absl::UnavailableError("MySQL with TLS: the process ends"); }

const char* TextOrNull(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

template <typename... Pieces>
absl::Status Failed(const MySqlTarget& target, absl::StatusCode code, const Pieces&... pieces) {
  return absl::Status(code, Concat("MySQL at ", target.Endpoint(), ": ", pieces...));
}

absl::Status ConnectError(MYSQL* session, const MySqlTarget& target) {
  if (LacksTls(session, target)) {
    return Failed(target, absl::StatusCode::kFailedPrecondition, "the server does not support TLS");
  }
  const unsigned error = mysql_errno(session);
  // The connector's text has another name than that of the plug-in.
  if (error == CR_PLUGIN_NOT_ALLOWED) {
    return Failed(target, absl::StatusCode::kFailedPrecondition,
                  "the server asks for the password by a plug-in that may reveal it; auth_plugin in the URL allows "
                  "one, with tls=verify or a socket");
  }
  return Failed(target, CodeOf(error, mysql_error(session)), MySqlErrorStatus(error, mysql_error(session)).message(),
                TlsSettings(target, error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MySqlConnection>> MySqlConnection::Open(const MySqlTarget& target, int stop_fd,
                                                                       const Meanwhile& meanwhile) {
  std::optional<ExitGate::Inside> inside;
  if (target.tls != MySqlTls::kOff) {
    // A connection may be used, and destroyed, after OpenSSL would have cleaned up at the end of the process.
    OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
    if (!inside.emplace(OpenSslGate())) return Exiting();
    if (absl::Status usable = CheckTlsFiles(target); !usable.ok()) {
      return Failed(target, usable.code(), usable.message());
    }
  }
  // Neither is thread-safe.
  static const bool ready = mysql_library_init(0, nullptr, nullptr) == 0 &&
                            ma_pvio_register_callback(/*register_callback=*/1, &AfterTransfer) == 0;
  MYSQL* const session = ready ? mysql_init(nullptr) : nullptr;
  if (session == nullptr) return absl::ResourceExhaustedError("MySQL's connector is out of memory");
  std::unique_ptr<MySqlConnection> connection(new MySqlConnection(session, target.tls != MySqlTls::kOff));
  SetOptions(session, target);
  if (absl::Status restricted = RestrictLogin(session, target); !restricted.ok()) {
    return Failed(target, restricted.code(), restricted.message());
  }

  size_t version = 0;
  mariadb_get_infov(nullptr, MARIADB_CLIENT_VERSION_ID, &version);
  if (absl::Status fits = CheckConnector(target.tls, version); !fits.ok()) {
    return Failed(target, fits.code(), fits.message());
  }

  const Instant deadline = Clock::System()->Now() + target.connect_timeout;
  const ScopedWaitLimit limit({deadline, stop_fd, /*connecting=*/true, &meanwhile});
  greeting = {.expected = true, .tls = target.tls != MySqlTls::kOff};
  if (mysql_real_connect(session, TextOrNull(target.host), TextOrNull(target.username), TextOrNull(target.password),
                         target.database.c_str(), target.port, TextOrNull(target.socket),
                         CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS) == nullptr) {
    connection->broken_ = true;
    return ConnectError(session, target);
  }
  const int socket = mysql_get_socket(session);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  if (target.tls != MySqlTls::kOff && mysql_get_ssl_cipher(session) == nullptr) {
    return Failed(target, absl::StatusCode::kFailedPrecondition, "the server does not support TLS");
  }
  if (absl::Status prepared = connection->Prepare(deadline, stop_fd); !prepared.ok()) {
    return Failed(target, prepared.code(), prepared.message());
  }
  return connection;
}

absl::Status MySqlConnection::Prepare(Instant deadline, int stop_fd) {
  std::string before;
  std::string after;
  std::string init_connect;
  MySqlReply reply =
      Run(Concat(kSessionSettings, ";SELECT UTC_TIMESTAMP(6);SELECT @@GLOBAL.init_connect;SELECT UTC_TIMESTAMP(6)"),
          MySqlInto(before, init_connect, after), deadline, stop_fd);
  if (reply.status.ok() && before == after) {
    // Perhaps the clock of that machine is coarse. Not by SLEEP(), whose end a server may compute by a clock that
    // steps.
    absl::SleepFor(kCoarseClock);
    reply = Run("SELECT UTC_TIMESTAMP(6)", MySqlInto(after), deadline, stop_fd);
  }
  if (!reply.status.ok()) return reply.status;
  if (before != after) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Concat("the session's clock stands still, as after SET timestamp=..., so nothing would expire; init_connect is '",
             init_connect, "'"));
}

MySqlConnection::~MySqlConnection() {
  std::optional<ExitGate::Inside> inside;
  if (tls_ && !inside.emplace(OpenSslGate())) {
    OpenSslGate().Keep(session_);
    return;
  }
  // Sends COM_QUIT, unless that would block.
  const ScopedWaitLimit limit({});
  mysql_close(session_);
}

uint64_t MySqlConnection::id() const { return mysql_thread_id(session_); }

bool MySqlConnection::Stale() const {
  pollfd fd = {.fd = mysql_get_socket(session_), .events = POLLIN, .revents = 0};
  return poll(&fd, 1, 0) != 0;
}

MySqlReply MySqlConnection::Run(std::string_view statements, std::span<const MySqlSink> results, Instant deadline,
                                int stop_fd, const std::function<void()>& on_sent) {
  std::optional<ExitGate::Inside> inside;
  if (tls_ && !inside.emplace(OpenSslGate())) {
    broken_ = true;
    return {.status = Exiting()};
  }
  const ScopedWaitLimit limit({deadline, stop_fd, /*connecting=*/false, wait_limit.meanwhile});  // Open() calls this.
  MySqlReply reply = Exchange(statements, results, on_sent);
  if (!reply.status.ok() && !broken_) {
    // Before any other statement, because START TRANSACTION would commit the open transaction.
    const MySqlReply rolled_back = Exchange("ROLLBACK", {});
    if (!rolled_back.status.ok()) broken_ = true;
  }
  return reply;
}

MySqlReply MySqlConnection::Exchange(std::string_view statements, std::span<const MySqlSink> results,
                                     const std::function<void()>& on_sent) {
  MySqlReply reply;
  MySqlReading reading(statements, results);
  // The server runs nothing before it has the whole of a packet.
  if (mysql_send_query(session_, statements.data(), statements.size()) != 0) {
    Fail(reply);
    return reply;
  }
  reply.unanswered = true;
  if (on_sent) on_sent();
  int more = mysql_read_query_result(session_) == 0 ? 0 : 1;
  while (more == 0) {
    if (!TakeResult(reading, reply)) return reply;
    more = mysql_next_result(session_);
  }
  // There are no more results, or the connection was lost within the description of one.
  if (more > 0 || mysql_errno(session_) != 0) {
    Fail(reply);
  } else if (!reading.End()) {
    Refuse(reading.what(), reply);
  } else {
    reply.unanswered = false;
  }
  return reply;
}

bool MySqlConnection::TakeResult(MySqlReading& reading, MySqlReply& reply) {
  MYSQL_RES* const result = mysql_use_result(session_);
  // If the connection is lost within the rows, the connector forgets the fields.
  if (result == nullptr && (mysql_field_count(session_) != 0 || mysql_errno(session_) != 0)) return Fail(reply);
  auto matched = static_cast<int64_t>(mysql_affected_rows(session_));
  bool taken = reading.TakeStatement() || Refuse(reading.what(), reply);
  if (result != nullptr) {
    taken = taken && TakeRows(reading, result, matched, reply);
    // Otherwise the connector would read the rest of the rows now.
    if (broken_) shutdown(mysql_get_socket(session_), SHUT_RDWR);
    mysql_free_result(result);
  }
  if (taken) reply.rows_matched.push_back(matched);
  return taken;
}

bool MySqlConnection::TakeRows(MySqlReading& reading, MYSQL_RES* result, int64_t& rows, MySqlReply& reply) {
  if (!reading.BeginRows(mysql_num_fields(result))) return Refuse(reading.what(), reply);
  std::vector<MySqlCell> cells(mysql_num_fields(result));
  for (rows = 0; MYSQL_ROW row = mysql_fetch_row(result); ++rows) {
    const unsigned long* const lengths = mysql_fetch_lengths(result);
    for (size_t i = 0; i < cells.size(); ++i) {
      cells[i] = row[i] == nullptr ? std::nullopt : MySqlCell({row[i], lengths[i]});
    }
    if (!reading.TakeRow(cells)) return Refuse(reading.what(), reply);
  }
  if (mysql_errno(session_) != 0) return Fail(reply);
  return reading.EndRows() || Refuse(reading.what(), reply);
}

bool MySqlConnection::Refuse(const std::string& what, MySqlReply& reply) {
  reply.status = absl::UnavailableError(what);
  reply.remedy = MySqlRemedy::kReconnect;
  reply.unanswered = true;
  broken_ = true;
  return false;
}

bool MySqlConnection::Fail(MySqlReply& reply) {
  const unsigned error = mysql_errno(session_);
  reply.error = error;
  reply.status = MySqlErrorStatus(error, mysql_error(session_));
  reply.remedy = MeaningOfMySqlError(error).remedy;
  if (!IsMySqlClientError(error)) {
    reply.unanswered = false;
  } else if (Clock::System()->Now() >= wait_limit.deadline) {
    reply.status = absl::UnavailableError(kLate);
  }
  broken_ = broken_ || IsMySqlClientError(error) || reply.remedy == MySqlRemedy::kReconnect;
  return false;
}

}  // namespace stockade::mysql_internal
