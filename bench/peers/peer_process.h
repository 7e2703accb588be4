#ifndef STOCKADE_BENCH_PEERS_PEER_PROCESS_H_
#define STOCKADE_BENCH_PEERS_PEER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stockade::bench {

// A child that answers lines with lines: a peer that is not C++, beside us in the same run. Its standard input and
// output are ours to talk on, its standard error is our own. It is killed with this object; one that outlives us, for
// we were killed, reads the end of its input.
//
// One thread at a time; time-outs are finite. Each error names the command, and is the last word of this child: a late
// answer must not be taken for the next one's.
class PeerProcess {
 public:
  // `command`: a program, sought in PATH, and its arguments. NotFound: there is no such program.
  static absl::StatusOr<std::unique_ptr<PeerProcess>> Start(std::vector<std::string> command);

  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Waits for the child's next line and returns it without its end. DeadlineExceeded: none came in time; Unavailable:
  // the child ended, and how; InvalidArgument: it is longer than a line of ours ever is; FailedPrecondition: an earlier
  // call failed.
  absl::StatusOr<std::string> ReadLine(absl::Duration timeout);

  // Sends `request`, which has no line end in it, and then as ReadLine().
  absl::StatusOr<std::string> Ask(std::string_view request, absl::Duration timeout);

  // As Ask(), for an answer that is a number above 0. InvalidArgument: it is not.
  absl::StatusOr<double> AskForRate(std::string_view request, absl::Duration timeout);

  pid_t pid() const { return pid_; }  // -1 once the child has ended.

 private:
  PeerProcess(std::string name, pid_t pid, int socket) : name_(std::move(name)), pid_(pid), socket_(socket) {}

  absl::Status Fail(absl::Status why);  // Ends the child.
  absl::Status FailAtEnd();
  int End();  // Kills the child where it still runs; its wait status.

  const std::string name_;  // The command, for messages.
  pid_t pid_;
  int socket_;            // The child's input and output. -1 once a call has failed.
  std::string received_;  // Past the lines that were returned.
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_PEERS_PEER_PROCESS_H_
