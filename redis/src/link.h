#ifndef STOCKADE_REDIS_LINK_H_
#define STOCKADE_REDIS_LINK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "reply_reader.h"
#include "resolve.h"
#include "socket.h"
#include "stockade/base/instant.h"
#include "stockade/redis/redis_command.h"
#include "stockade/redis/redis_endpoint.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_reply.h"
#include "tls.h"

namespace stockade::redis_internal {

// The client's identity at a server.
struct LinkIdentity {
  std::string username = {};  // With a password only; empty: the default user.
  std::string password = {};  // Empty: no authentication.
  int database = 0;
  std::string client_name = {};              // Empty: none.
  bool name_process = false;                 // Whether it is ProcessName() where `client_name` is empty.
  bool identify_server = false;              // Whether the server's run id is read.
  bool read_only = false;                    // At a replica of a cluster: it then serves reads.
  std::shared_ptr<TlsConfig> tls = nullptr;  // Null: without TLS.
  // Copies share it: it bounds the names that the client resolves at a time.
  std::shared_ptr<Resolver> resolver = std::make_shared<Resolver>();
};

// One connection to one server, for its whole life: it is made, authenticated, used, and never mended. One thread may
// send while another receives.
class Link {
 public:
  // Blocks until the server has taken authentication, name and database, or until `deadline`. Unavailable where it
  // cannot be reached or refuses for now; the server's own refusal otherwise (Unauthenticated, ...). Errors of TLS are
  // those of TlsChannel::Open().
  static absl::StatusOr<std::unique_ptr<Link>> Connect(const RedisEndpoint& endpoint, const LinkIdentity& identity,
                                                       size_t max_reply_bytes, Instant deadline);

  const RedisEndpoint& endpoint() const { return endpoint_; }
  // Which server process this is. It never changes.
  const RedisServerIdentity& server() const { return server_; }
  int fd() const { return fd_.get(); }

  // How many of `bytes` the socket takes at once. If 0, the next call's must begin with the same. For one thread at a
  // time.
  absl::StatusOr<size_t> Send(std::string_view bytes) {
    return tls_ != nullptr ? tls_->Send(bytes) : SendSome(fd_.get(), bytes);
  }

  // The three below for one thread at a time.
  //
  // Takes in what is there, at most 64 KiB. False: nothing was. Errors are those of ReceiveSome() and ReplyReader.
  absl::StatusOr<bool> Receive();
  // The next reply of those that were taken in. False: it is not all there yet.
  absl::StatusOr<bool> Next(RedisReply& reply) { return reader_.Next(reply); }
  // Whether bytes were taken in that are in no reply which Next() has given out.
  bool HasUnread() const { return reader_.HasUnread(); }
  // Sends `commands` and waits for the reply to each, in order, on a link that nobody else uses. Blocks until
  // `deadline` at the most. A server's error is a reply. DataLoss if something had come before they were sent.
  absl::StatusOr<std::vector<RedisReply>> RoundTrip(std::span<const RedisCommand> commands, Instant deadline);

  // While no reply is due. DataLoss if something has come, which a later command would take for its reply; Unavailable
  // if the connection has ended. Any thread; does not wait.
  absl::Status CheckNothingCame() const;
  // Whether there is something to receive, which is left there. Any thread; does not wait.
  absl::StatusOr<bool> HasSome() const { return redis_internal::HasSome(fd_.get()); }

  // May be called on any thread. A thread that sends or receives, or sleeps until it can, finds the connection broken.
  void ShutDown();

 private:
  Link(const RedisEndpoint& endpoint, FileDescriptor fd, std::unique_ptr<TlsChannel> tls, size_t max_reply_bytes)
      : endpoint_(endpoint),
        fd_(std::move(fd)),
        tls_(std::move(tls)),
        reader_(max_reply_bytes),
        buffer_(TlsChannel::kMinBuffer) {}

  // What a server need not answer.
  enum class Optional { kNone, kProcessName, kInfo };
  // Which one broke the connection, after all that is needed had succeeded. server() then says why it was INFO.
  absl::StatusOr<Optional> Introduce(const LinkIdentity& identity, Instant deadline);
  // One of Introduce(). Whether the connection can be used.
  absl::Status TakeReply(std::string_view command, const RedisReply& reply, bool needed, const LinkIdentity& identity);
  // Appends the replies that have arrived to `replies`, also if it fails.
  absl::Status Exchange(std::span<const RedisCommand> commands, Instant deadline, std::vector<RedisReply>& replies);

  const RedisEndpoint endpoint_;
  RedisServerIdentity server_;  // Constant once Connect() has returned.
  const FileDescriptor fd_;
  const std::unique_ptr<TlsChannel> tls_;  // Null: without TLS.
  ReplyReader reader_;
  std::vector<char> buffer_;
  bool heard_ = false;  // Something has come.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_LINK_H_
