#ifndef STOCKADE_EXAMPLES_FLEET_SALE_SALE_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_SALE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "audit.h"
#include "common/process.h"
#include "common/progress.h"
#include "common/stop_signal.h"
#include "sale_board.h"
#include "segments.h"
#include "seller.h"
#include "servers.h"
#include "shared_sale.h"

namespace fleet_sale {

// Thrown once SIGINT or SIGTERM has come.
class Stopped : public std::runtime_error {
 public:
  Stopped() : std::runtime_error("stopped by a signal") {}
};

// Throws Stopped if a signal has come; otherwise sleeps for a moment.
void Pause(examples::StopSignal& stop);

// Everything that it points to must outlive the sale.
struct SaleSetup {
  int64_t stock = 0;
  int64_t buyers = 0;
  absl::Duration arrival = {};  // Of the first buyers, as many as there are units.
  std::string directory = {};
  Servers* servers = nullptr;
  SaleBoard* board = nullptr;
  bool has_page = false;  // Somebody may look at the board.
  examples::Progress* progress = nullptr;
  examples::StopSignal* stop = nullptr;
};

// One half of the demo: kProcesses processes sell to all buyers, while servers and processes fail. Both halves have the
// same buyers and the same faults. For one thread.
class Sale {
 public:
  Sale(Half half, const SaleSetup& setup);

  // Sells, and audits. Throws if it cannot go on.
  Audit Run();
  // How long it has sold.
  absl::Duration duration() const { return duration_; }
  SaleFigures Figures();

 private:
  // A fault, once a share of the first buyers has arrived. They go on arriving while it lasts.
  struct Fault {
    double share = 0;
    // Only once these buyers have their answers. Otherwise a naive process that is between GET and SET could undo it.
    bool between_requests = false;
    std::string text = {};
    std::function<void()> begin = {};
    std::function<bool()> is_over = {};  // None: it is over at once.
    std::string text_after = {};
  };

  std::vector<Fault> Faults();
  void StartProcess(int number);
  void AwaitOpen();
  void InjectFaults();
  // Lets the buyers that are due arrive, up to `limit`, shows the progress, and sleeps for a moment.
  void Tick(int64_t limit);
  // Shows the progress, and on the board the segments, too.
  void Show();
  void Say(const std::string& text);
  // A fault, or the end of one: also on the board.
  void Report(const std::string& text);
  std::string Detail();

  const Half half_;
  const SaleSetup setup_;
  const std::string label_;
  const std::string path_;
  HalfBoard* const board_;
  SharedSale shared_;
  std::optional<Segments> segments_;  // If there is a page.
  std::array<std::optional<examples::Process>, kProcesses> processes_;
  absl::Time opened_ = absl::InfiniteFuture();
  absl::Time last_change_ = absl::InfinitePast();
  absl::Time last_update_ = absl::InfinitePast();
  int64_t last_answered_ = 0;
  absl::Duration duration_ = {};
};

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_SALE_H_
