#include "link.h"

#include <sys/socket.h>

#include <utility>

#include "absl/status/status.h"
#include "status.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"

namespace stockade::internal {
namespace {

absl::Status Named(const RedisEndpoint& endpoint, const absl::Status& status) {
  return absl::Status(status.code(), Concat(endpoint.ToString(), ": ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> Link::Connect(const RedisEndpoint& endpoint, const LinkIdentity& identity,
                                                    size_t max_reply_bytes, Instant deadline) {
  absl::StatusOr<FileDescriptor> fd = ConnectSocket(endpoint, deadline);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<Link> link(new Link(endpoint, *std::move(fd), max_reply_bytes));
  const absl::Status introduced = link->Introduce(identity, deadline);
  if (!introduced.ok()) return Named(endpoint, introduced);
  return link;
}

absl::Status Link::Introduce(const LinkIdentity& identity, Instant deadline) {
  std::vector<RedisCommand> commands;
  if (!identity.password.empty()) {
    RedisCommand& auth = commands.emplace_back("AUTH");
    if (!identity.username.empty()) auth.Arg(identity.username);
    auth.Arg(identity.password);
  }
  if (!identity.client_name.empty())
    commands.push_back(RedisCommand("CLIENT").Arg("SETNAME").Arg(identity.client_name));
  if (identity.database != 0) commands.push_back(RedisCommand("SELECT").Arg(identity.database));
  // Whether a server that asks for a password, or still loads its data, would take commands shows here and not later.
  commands.emplace_back("PING");
  const absl::StatusOr<std::vector<RedisReply>> replies = RoundTrip(commands, deadline);
  if (!replies.ok()) return replies.status();
  // A user who may not PING is known all the same.
  for (const RedisReply& reply : *replies) {
    if (!reply.is_error() || (&reply == &replies->back() && ErrorCodeOf(reply.text()) == "NOPERM")) continue;
    return StatusOfErrorReply(reply.text());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Link::Receive() {
  const absl::StatusOr<size_t> got = ReceiveSome(fd_.get(), buffer_);
  if (!got.ok()) return got.status();
  if (*got == 0) return false;
  const absl::Status fed = reader_.Feed(std::string_view(buffer_.data(), *got));
  if (!fed.ok()) return fed;
  return true;
}

absl::StatusOr<std::vector<RedisReply>> Link::RoundTrip(std::span<const RedisCommand> commands, Instant deadline) {
  std::string wire;
  for (const RedisCommand& command : commands) wire += command.Wire();
  std::string_view unsent = wire;
  std::vector<RedisReply> replies;
  while (replies.size() < commands.size()) {
    if (!unsent.empty()) {
      const absl::StatusOr<size_t> sent = Send(unsent);
      if (!sent.ok()) return sent.status();
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
  return replies;
}

void Link::ShutDown() { (void)shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace stockade::internal
