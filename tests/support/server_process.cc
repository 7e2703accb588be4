#include "support/server_process.h"

#include <signal.h>
#include <sys/wait.h>

#include "stockade/base/strings.h"
#include "support/await.h"

namespace stockade::testing {

void ServerProcess::Launch(const std::vector<std::string>& argv) {
  std::vector<std::string> dies_with_the_test = {"setpriv", "--pdeathsig", "KILL"};
  dies_with_the_test.insert(dies_with_the_test.end(), argv.begin(), argv.end());
  process_ = std::make_unique<Subprocess>(dies_with_the_test);
}

bool ServerProcess::Start(const std::vector<std::string>& argv, const std::string& ready) {
  Launch(argv);
  if (process_->AwaitOutput(ready)) return true;
  Kill();
  return false;
}

bool ServerProcess::Start(const std::vector<std::string>& argv, std::string_view what,
                          const std::function<bool()>& ready) {
  Launch(argv);
  bool is_ready = false;
  Await(what, [&] { return (is_ready = ready()) || process_->ended(); });
  if (!is_ready) Kill();
  return is_ready;
}

std::string ServerProcess::log() const {
  return process_ == nullptr ? earlier_log_ : base_internal::Concat(process_->out(), process_->err(), earlier_log_);
}

void ServerProcess::Stop() {
  if (!running()) return;
  process_->Kill(SIGTERM);
  Resume();  // A paused process meets its SIGTERM only then.
  End();
}

void ServerProcess::Kill() {
  if (!running()) return;
  process_->Kill(SIGKILL);
  End();
}

void ServerProcess::End() {
  process_->Wait();
  earlier_log_ = log();
  process_.reset();
}

void ServerProcess::Pause() {
  process_->Kill(SIGSTOP);
  siginfo_t stopped = {};
  while (waitid(P_PID, static_cast<id_t>(process_->pid()), &stopped, WSTOPPED | WEXITED | WNOWAIT) < 0) {
  }
}

void ServerProcess::Resume() { process_->Kill(SIGCONT); }

}  // namespace stockade::testing
