#include "link.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "status.h"
#include "stockade/base/clock.h"
#include "stockade/base/process_name.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

// `status` with another code and text, but what else it says.
absl::Status Restated(const absl::Status& status, absl::StatusCode code, std::string_view text) {
  absl::Status restated(code, AbslView(text));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { restated.SetPayload(url, payload); });
  return restated;
}

absl::Status Named(const RedisEndpoint& endpoint, const absl::Status& status) {
  return Restated(status, status.code(), Concat(endpoint.ToString(), ": ", std::string(status.message())));
}

// What an error that answers `command` of the handshake means; empty: its first word says all that is known.
std::string Explain(std::string_view command, std::string_view error, const LinkIdentity& identity) {
  const std::string_view code = ErrorCodeOf(error);
  if (code == "WRONGPASS") return "the user or the password of the URL is wrong";
  if (code == "NOAUTH" && identity.password.empty()) return "the URL has no password, but the server requires one";
  if (code == "DENIED") return "the server is in protected mode";
  if (error.starts_with("ERR max number of clients")) return "the server has reached its limit of clients (maxclients)";
  if (command == "SELECT" && code == "ERR") {
    const bool is_node = error.starts_with("ERR SELECT is not allowed in cluster mode");
    return Concat("the server refuses database ", identity.database, " of the URL",
                  is_node ? ": it is a node of a cluster, which has database 0 only" : "");
  }
  if (command != "AUTH") return "";
  if (error.starts_with("ERR unknown command")) return "the server has no command AUTH";
  if (error.starts_with("ERR AUTH <password> called without") || error.starts_with("ERR Client sent AUTH, but no")) {
    return "the URL has a password, but the server has none";
  }
  return "";
}

// A user name without a password may be meant as one.
bool HasCredentials(const LinkIdentity& identity) { return !identity.password.empty() || !identity.username.empty(); }

// The server's own words are shown only where it was sent no password that they could repeat.
absl::Status Refusal(std::string_view command, std::string_view error, const LinkIdentity& identity) {
  const std::string meaning = Explain(command, error, identity);
  const std::string explanation =
      Concat("it refuses ", command, " at the beginning of a connection", meaning.empty() ? "" : ": ", meaning);
  const ServerText show = HasCredentials(identity) ? ServerText::kHidden : ServerText::kShown;
  absl::Status refusal = StatusOfErrorReply(error, show, explanation);
  if (refusal.code() != absl::StatusCode::kUnknown) return refusal;
  // The error's words are unknown, but not its subject: the user and the password were refused, or the database.
  const absl::StatusCode code = command == "AUTH"     ? absl::StatusCode::kUnauthenticated
                                : command == "SELECT" ? absl::StatusCode::kInvalidArgument
                                                      : absl::StatusCode::kUnknown;
  return Restated(refusal, code, std::string(refusal.message()));
}

// The value of run_id in the reply to INFO. FailedPrecondition if the server does not tell it.
absl::StatusOr<std::string> RunIdOf(const RedisReply& info, const LinkIdentity& identity) {
  if (info.is_error()) {
    const ServerText show = HasCredentials(identity) ? ServerText::kHidden : ServerText::kShown;
    const absl::Status refusal = StatusOfErrorReply(info.text(), show);
    return Restated(refusal, absl::StatusCode::kFailedPrecondition,
                    Concat("it refuses INFO: ", std::string(refusal.message())));
  }
  constexpr std::string_view kField = "run_id:";
  constexpr size_t kMaxRunIdBytes = 128;
  std::string_view text = info.text();
  while (!text.starts_with(kField)) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return absl::FailedPreconditionError("its reply to INFO has no run_id");
    text.remove_prefix(end + 1);
  }
  text.remove_prefix(kField.size());
  const std::string_view run_id = text.substr(0, text.find_first_of("\r\n"));
  if (run_id.empty() || run_id.size() > kMaxRunIdBytes ||
      !std::all_of(run_id.begin(), run_id.end(), absl::ascii_isalnum)) {
    return absl::FailedPreconditionError("the run_id in its reply to INFO is not made of letters and digits");
  }
  return std::string(run_id);
}

// Later connections have larger numbers.
uint64_t NextGeneration() {
  static std::atomic<uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> Link::Connect(const RedisEndpoint& endpoint, const LinkIdentity& identity,
                                                    size_t max_reply_bytes, Instant deadline) {
  absl::StatusOr<FileDescriptor> fd = ConnectSocket(endpoint, *identity.resolver, deadline);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<TlsChannel> tls;
  if (identity.tls != nullptr) {
    absl::StatusOr<std::unique_ptr<TlsChannel>> opened =
        TlsChannel::Open(identity.tls->Get(), endpoint, fd->get(), deadline);
    if (!opened.ok()) return opened.status();
    tls = *std::move(opened);
  }
  std::unique_ptr<Link> link(new Link(endpoint, *std::move(fd), std::move(tls), max_reply_bytes));
  const absl::StatusOr<Optional> broke_at = link->Introduce(identity, deadline);
  if (!broke_at.ok()) return Named(endpoint, broke_at.status());
  if (!link->server_.run_id.ok()) link->server_.run_id = Named(endpoint, link->server_.run_id.status());
  link->server_.generation = NextGeneration();
  if (*broke_at == Optional::kNone) return link;
  // Some proxies close the connection, or the reply is larger than the bound. Commands work without it.
  LinkIdentity without = identity;
  without.name_process = false;
  without.identify_server = identity.identify_server && *broke_at != Optional::kInfo;
  absl::StatusOr<std::unique_ptr<Link>> other = Connect(endpoint, without, max_reply_bytes, deadline);
  if (other.ok() && *broke_at == Optional::kInfo) (*other)->server_.run_id = link->server_.run_id;
  return other;
}

absl::StatusOr<Link::Optional> Link::Introduce(const LinkIdentity& identity, Instant deadline) {
  std::vector<RedisCommand> commands;
  // A user without a password, too: otherwise the commands would run as the user "default".
  if (HasCredentials(identity)) {
    RedisCommand& auth = commands.emplace_back("AUTH");
    if (!identity.username.empty()) auth.Arg(identity.username);
    auth.Arg(identity.password);
  }
  if (!identity.client_name.empty())
    commands.push_back(RedisCommand("CLIENT").Arg("SETNAME").Arg(identity.client_name));
  if (identity.database != 0) commands.push_back(RedisCommand("SELECT").Arg(identity.database));
  if (identity.read_only) commands.emplace_back("READONLY");
  // Whether a server that asks for a password, or still loads its data, would take commands shows here and not later.
  commands.emplace_back("PING");
  const size_t needed = commands.size();
  const bool name_process = identity.name_process && identity.client_name.empty();
  if (name_process) commands.push_back(RedisCommand("CLIENT").Arg("SETNAME").Arg(base_internal::ProcessName()));
  if (identity.identify_server) commands.push_back(RedisCommand("INFO").Arg("server"));
  // Without a look at what came before: a server that has too many clients says so unasked.
  std::vector<RedisReply> replies;
  const absl::Status exchanged = Exchange(commands, deadline, replies);
  const bool broke = (absl::IsUnavailable(exchanged) || absl::IsResourceExhausted(exchanged)) &&
                     replies.size() >= needed && replies.size() < commands.size() && Clock::System()->Now() < deadline;
  if (!exchanged.ok() && !broke) return exchanged;
  for (size_t i = 0; i < replies.size(); ++i) {
    const absl::Status taken = TakeReply(commands[i].name(), replies[i], /*needed=*/i < needed, identity);
    if (!taken.ok()) return taken;
  }
  if (broke && name_process && replies.size() == needed) return Optional::kProcessName;
  if (broke) {
    server_.run_id =
        absl::FailedPreconditionError(Concat("it does not answer INFO: ", std::string(exchanged.message())));
    return Optional::kInfo;
  }
  if (HasUnread()) return absl::DataLossError("more was received than the replies to the first commands");
  return Optional::kNone;
}

absl::Status Link::TakeReply(std::string_view command, const RedisReply& reply, bool needed,
                             const LinkIdentity& identity) {
  if (command == "INFO" && (reply.is_error() || reply.is_nil() || reply.kind() == RedisReply::Kind::kString)) {
    server_.run_id = RunIdOf(reply, identity);
    return absl::OkStatus();
  }
  if (reply.is_error()) {
    // A user who may not PING is known all the same, and a name is only for people.
    if (!needed || (command == "PING" && ErrorCodeOf(reply.text()) == "NOPERM")) return absl::OkStatus();
    return Refusal(command, reply.text(), identity);
  }
  const bool is_status = reply.kind() == RedisReply::Kind::kStatus && command != "INFO";
  if (is_status && reply.text() == (command == "PING" ? "PONG" : "OK")) return absl::OkStatus();
  return absl::DataLossError(
      Concat("a reply to ", command, " that belongs to another command (", RedisReplyKindName(reply.kind()), ")"));
}

absl::StatusOr<bool> Link::Receive() {
  const absl::StatusOr<size_t> got = tls_ != nullptr ? tls_->Receive(buffer_) : ReceiveSome(fd_.get(), buffer_);
  if (!got.ok()) {
    if (heard_ || tls_ != nullptr) return got.status();
    return absl::UnavailableError(Concat(std::string(got.status().message()),
                                         " before it answered anything; if it requires ",
                                         "TLS, the URL must begin with rediss"));
  }
  if (*got == 0) return false;
  // Records of TLS begin so, and no reply does.
  if (!std::exchange(heard_, true) && (buffer_[0] == 0x15 || buffer_[0] == 0x16)) {
    return absl::FailedPreconditionError("the server answers with TLS: its URL must begin with rediss");
  }
  const absl::Status fed = reader_.Feed(std::string_view(buffer_.data(), *got));
  if (!fed.ok()) return fed;
  return true;
}

absl::Status Link::CheckNothingCame() const {
  const absl::StatusOr<bool> came = tls_ != nullptr ? tls_->DataCame() : HasSome();
  if (!came.ok()) return came.status();
  return *came ? absl::DataLossError(Concat(endpoint_.ToString(), ": bytes that no command waits for"))
               : absl::OkStatus();
}

absl::StatusOr<std::vector<RedisReply>> Link::RoundTrip(std::span<const RedisCommand> commands, Instant deadline) {
  if (HasUnread()) return absl::DataLossError("bytes that no command waits for");
  const absl::Status quiet = CheckNothingCame();
  if (!quiet.ok()) return quiet;
  std::vector<RedisReply> replies;
  const absl::Status exchanged = Exchange(commands, deadline, replies);
  if (!exchanged.ok()) return exchanged;
  return replies;
}

absl::Status Link::Exchange(std::span<const RedisCommand> commands, Instant deadline,
                            std::vector<RedisReply>& replies) {
  std::string wire;
  for (const RedisCommand& command : commands) wire += command.Wire();
  std::string_view unsent = wire;
  while (replies.size() < commands.size()) {
    if (!unsent.empty()) {
      const absl::StatusOr<size_t> sent = Send(unsent);
      if (!sent.ok()) {
        // A server that refuses the connection may have said why before it closed it.
        const absl::StatusOr<bool> received = Receive();
        return received.ok() ? sent.status() : received.status();
      }
      unsent.remove_prefix(*sent);
    }
    const absl::StatusOr<bool> received = Receive();
    if (!received.ok()) return received.status();
    RedisReply reply;
    while (replies.size() < commands.size()) {
      const absl::StatusOr<bool> next = Next(reply);
      if (!next.ok()) return next.status();
      if (!*next) break;
      replies.push_back(std::move(reply));
    }
    if (*received || replies.size() == commands.size()) continue;
    if (Clock::System()->Now() >= deadline) return absl::UnavailableError("no answer in time");
    pollfd waiting{
        .fd = fd_.get(), .events = static_cast<short>(unsent.empty() ? POLLIN : POLLIN | POLLOUT), .revents = 0};
    Poll({&waiting, 1}, deadline);
  }
  return absl::OkStatus();
}

void Link::ShutDown() { (void)shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace stockade::redis_internal
