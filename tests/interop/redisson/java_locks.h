#ifndef STOCKADE_TESTS_INTEROP_REDISSON_JAVA_LOCKS_H_
#define STOCKADE_TESTS_INTEROP_REDISSON_JAVA_LOCKS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "peers/peer_process.h"

namespace stockade::testing {

// Owners in a JVM, each a thread there, and Redisson's locks for them. driver/LockDriver.java tells the commands. Where
// the JVM fails, that is the answer: no test expects it. For one thread.
class JavaLocks {
 public:
  // The program. NotFound: one line that says why there is none.
  static absl::StatusOr<std::string> FindDriver();
  // Blocks until it is connected.
  static absl::StatusOr<std::unique_ptr<JavaLocks>> Start(const std::string& driver, const std::string& url);

  // Blocks until that owner has carried it out.
  std::string Do(const std::string& owner, const std::string& command) { return Ask("do " + owner + " " + command); }

  // The same without waiting. Until End(), which does wait, that owner is asked nothing else.
  void Begin(const std::string& owner, const std::string& command);
  // Whether it waits, so that a message wakes it. Redisson's '1' wakes who waits already, and not who is about to.
  bool Waits(const std::string& owner) { return Ask("waits " + owner) == "true"; }
  bool Ended(const std::string& owner) { return Ask("ended " + owner) == "true"; }
  std::string End(const std::string& owner) { return Ask("end " + owner); }

 private:
  explicit JavaLocks(std::unique_ptr<bench::PeerProcess> process) : process_(std::move(process)) {}

  std::string Ask(const std::string& line);

  const std::unique_ptr<bench::PeerProcess> process_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INTEROP_REDISSON_JAVA_LOCKS_H_
