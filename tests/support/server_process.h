#ifndef STOCKADE_TESTS_SUPPORT_SERVER_PROCESS_H_
#define STOCKADE_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/subprocess.h"

namespace stockade::testing {

// A server's program, killed with the object or with the test's process. Not thread-safe, but any thread may use it.
class ServerProcess {
 public:
  // Blocks until its standard output has `ready`. False, and down: it has ended before.
  bool Start(const std::vector<std::string>& argv, const std::string& ready);
  // For one that does not say on its standard output when it is ready. `what` it is, for Await().
  bool Start(const std::vector<std::string>& argv, std::string_view what, const std::function<bool()>& ready);

  bool running() const { return process_ != nullptr; }
  // What it and those before it have printed, the last one first.
  std::string log() const;

  // Each blocks until it is so.
  void Stop();   // By SIGTERM, as an operator does it.
  void Kill();   // By SIGKILL.
  void Pause();  // It does nothing until Resume(); the kernel still accepts connections and bytes.
  void Resume();

 private:
  void Launch(const std::vector<std::string>& argv);
  void End();

  std::unique_ptr<Subprocess> process_;  // Null while it is down.
  std::string earlier_log_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_SERVER_PROCESS_H_
