#ifndef STOCKADE_REDIS_ATTEMPT_H_
#define STOCKADE_REDIS_ATTEMPT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "router.h"
#include "stockade/base/instant.h"
#include "stockade/redis/redis_command.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_reply.h"

namespace stockade::redis_internal {

// RedisCallOptions, with the time-out as a deadline.
struct CallTerms {
  Instant deadline;
  std::optional<std::string> on_server = {};
  RedisReadFrom read_from = RedisReadFrom::kMaster;
  bool retry = true;
};

// One command's way to its final answer: where it goes, what is sent, and whether what came back is the end. What waits
// and what calls back walk it alike:
//
//   while (attempt.Prepare(request)) { run the request on attempt.pipeline(); if (!attempt.Judge(request.result))
//   break; pause }
class Attempt {
 public:
  // All must outlive it.
  Attempt(const RedisCommand* command, Router* router, ComponentMetrics* metrics, CallTerms terms)
      : command_(command), router_(router), metrics_(metrics), terms_(std::move(terms)) {}

  Instant deadline() const { return terms_.deadline; }
  const std::shared_ptr<Pipeline>& pipeline() const { return hop_.pipeline; }

  // Fills in what is to be sent through pipeline(). An error is final, unless IsNoRoom(): then it is the result to
  // Judge().
  absl::Status Prepare(Request& request);

  // Takes the result of what was sent. Nothing: it is final, and an error reply has become a status. A span: to be
  // prepared and sent again after so long, which is before the deadline.
  std::optional<absl::Duration> Judge(absl::StatusOr<RedisReply>& result);

  // `error` as the end of all attempts: one of which the outcome is unknown makes it that of the command.
  absl::Status Final(const absl::Status& error) const;

 private:
  // OK if the command and its terms are valid.
  absl::Status Check() const;
  // May run twice.
  bool repeatable() const { return command_->idempotent() || terms_.read_from == RedisReadFrom::kReplica; }
  // What to do after an error reply.
  Verdict OnErrorReply(std::string_view error);
  std::optional<absl::Duration> Again(Verdict verdict);
  // The result of a hop to a replica. If that cannot answer, the master is asked.
  std::optional<absl::Duration> JudgeReplica(absl::StatusOr<RedisReply>& result);
  // The result of a transaction, which has all its replies, or of the proof before it.
  std::optional<absl::Duration> JudgeTransaction(absl::StatusOr<RedisReply>& result);
  // Sends the proof, or what it was for. Nothing, and an error in `result`: no time is left.
  std::optional<absl::Duration> SetProving(bool proving, absl::StatusOr<RedisReply>& result);
  // Whether an error may be the script's own, after it has written, though it begins like a refusal of the server.
  bool MayHaveWritten(std::string_view error) const;

  const RedisCommand* command_;
  Router* router_;
  ComponentMetrics* metrics_;
  CallTerms terms_;
  Hop hop_;
  bool left_replicas_ = false;  // The master is asked, because a replica could not answer.
  bool whole_script_ = false;
  bool proving_ = false;       // The proof before a transaction is sent, and not the transaction.
  bool may_have_run_ = false;  // An earlier attempt's reply was lost.
  int pauses_ = 0;
};

// Counts the result of a command.
void CountResult(const absl::Status& result, ComponentMetrics& metrics);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_ATTEMPT_H_
