#include "sellers.h"

#include <signal.h>

#include "absl/strings/str_cat.h"

namespace ticket_office {

absl::Status Sellers::Start(int64_t count, Fate fate) {
  SellerPlan plan = plan_;
  plan.fate = fate;
  for (int64_t i = 0; i < count; ++i) {
    absl::StatusOr<Process> process = Process::Start(SellerArgs(program_, plan));
    if (!process.ok()) return process.status();
    processes_.push_back(*std::move(process));
  }
  return absl::OkStatus();
}

absl::StatusOr<Process::State> Sellers::Await(size_t seller) {
  const Process::State state = processes_[seller].Await();
  if (state.stopped || state.exit_status == 0) return state;
  return absl::InternalError(state.signal != 0 ? absl::StrCat("seller ", seller, " was ended by signal ", state.signal)
                                               : absl::StrCat("seller ", seller, " failed"));
}

absl::Status Sellers::AwaitPaused(size_t seller) {
  absl::StatusOr<Process::State> state = Await(seller);
  if (!state.ok()) return state.status();
  if (state->stopped) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("seller ", seller, " ended, but should have been paused"));
}

absl::Status Sellers::AwaitCrashed(size_t seller) {
  const Process::State state = processes_[seller].Await();
  if (state.signal == SIGKILL) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("seller ", seller, " should have crashed, but did not"));
}

absl::Status Sellers::AwaitHome(size_t seller) {
  absl::StatusOr<Process::State> state = Await(seller);
  if (!state.ok()) return state.status();
  if (!state->stopped) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("seller ", seller, " was stopped by another process"));
}

absl::Status Sellers::AwaitAllHome() {
  for (size_t seller = 0; seller < processes_.size(); ++seller) {
    if (processes_[seller].ended()) continue;
    if (absl::Status home = AwaitHome(seller); !home.ok()) return home;
  }
  return absl::OkStatus();
}

absl::Status Sellers::KeepInStep() {
  for (bool all_home = false; !all_home;) {
    all_home = true;
    for (size_t seller = 0; seller < processes_.size(); ++seller) {
      if (processes_[seller].ended()) continue;
      absl::StatusOr<Process::State> state = Await(seller);
      if (!state.ok()) return state.status();
      all_home = all_home && !state->stopped;
    }
    for (Process& process : processes_) {
      if (!process.ended()) process.Continue();
    }
  }
  return absl::OkStatus();
}

}  // namespace ticket_office
