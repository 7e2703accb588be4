#include "common/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace examples {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress() : terminal_(isatty(STDOUT_FILENO) == 1) {}

void Progress::Say(const std::string& line) {
  Clear();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Progress::Update(const std::string& label, double share, const std::string& detail) {
  share = std::clamp(share, 0.0, 1.0);
  if (terminal_) {
    const std::string bar(static_cast<size_t>(share * kBarWidth), '#');
    std::printf("\r\033[K%-8s [%-*s] %3.0f %%  %s", label.c_str(), kBarWidth, bar.c_str(), share * 100, detail.c_str());
    std::fflush(stdout);
    drawn_ = true;
    return;
  }
  const int quarter = static_cast<int>(share * 4);
  if (quarter <= quarters_told_ || quarter == 4) return;
  quarters_told_ = quarter;
  Say(label + ": " + std::to_string(quarter * 25) + " %, " + detail);
}

void Progress::Finish(const std::string& label, const std::string& detail) {
  quarters_told_ = 0;
  Say(label + ": done, " + detail);
}

void Progress::Clear() {
  if (drawn_) std::printf("\r\033[K");
  drawn_ = false;
}

}  // namespace examples
