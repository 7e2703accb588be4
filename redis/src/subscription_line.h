#ifndef STOCKADE_REDIS_SUBSCRIPTION_LINE_H_
#define STOCKADE_REDIS_SUBSCRIPTION_LINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "link.h"
#include "stockade/base/backoff.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/instant.h"
#include "stockade/redis/redis_reply.h"

namespace stockade::redis_internal {

class ConnectAttempt;

struct SubscriptionLineOptions {
  absl::Duration connect_timeout;
  absl::Duration min_backoff;
  absl::Duration max_backoff;
  // A server that says nothing for so long is asked (PING), and the connection is broken where it then says nothing for
  // as long again. A connection that is not used is kept as long.
  absl::Duration silence;
};

// One connection for subscriptions, and the next one after it broke. It is down, being made, or up. For one thread, and
// nothing blocks it: a connection is made on a thread of its own.
class SubscriptionLine {
 public:
  SubscriptionLine(const SubscriptionLineOptions& options, uint64_t seed);
  // Waits for an attempt to connect.
  ~SubscriptionLine();

  bool up() const { return link_ != nullptr; }
  bool connecting() const { return attempt_ != nullptr; }
  // It is down, and the pause since the last attempt is over.
  bool MayConnect(Instant now) const { return !up() && !connecting() && now >= retry_at_; }

  // Only where MayConnect(). `wake` is set once it has ended, and must outlive this.
  using MakeLink = std::function<absl::StatusOr<std::unique_ptr<Link>>(Instant deadline)>;
  void Connect(MakeLink make_link, Instant now, const EventFd* wake);
  // What came of the attempt: OK where it is up now. Nothing: there is none, or it has not ended.
  std::optional<absl::Status> TakeAttempt(Instant now);

  // All below only while it is up. After an error from any it is to be closed by Lose().
  //
  // More than some 256 KiB that the server does not take are not worth more memory.
  bool HasRoom() const { return out_.size() - out_begin_ < (size_t{256} << 10); }
  void Write(std::string_view wire) { out_ += wire; }
  // What the socket takes.
  absl::Status Flush();
  int fd() const { return link_->fd(); }
  bool blocked() const { return out_begin_ < out_.size(); }
  const RedisEndpoint& endpoint() const { return link_->endpoint(); }

  // As the link's.
  absl::StatusOr<bool> Receive(Instant now);
  absl::StatusOr<bool> Next(RedisReply& reply) { return link_->Next(reply); }
  absl::Status TakePong();
  // At `polled_at` there was nothing to receive. `now` may be later.
  absl::Status JudgeSilence(Instant polled_at, Instant now);

  // The connection broke. If it had lasted long, the next one is made at once, otherwise after a pause.
  void Lose(Instant now);

  // When it needs attention even if nothing arrives.
  Instant wakes_at() const;

 private:
  const SubscriptionLineOptions options_;
  Backoff backoff_;
  std::unique_ptr<ConnectAttempt> attempt_;
  Instant tried_at_ = Instant::InfinitePast();
  Instant retry_at_ = Instant::InfinitePast();

  std::unique_ptr<Link> link_;
  std::string out_;  // Not sent from out_begin_ on.
  size_t out_begin_ = 0;
  Instant heard_at_;
  int pings_ = 0;      // Without an answer.
  Instant pinged_at_;  // When the last PING was sent: a late PING has as long for its answer.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SUBSCRIPTION_LINE_H_
