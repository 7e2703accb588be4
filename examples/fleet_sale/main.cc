// A flash sale of four processes, three Redis nodes and one MariaDB, while they fail: as many services are written, and
// then with Stockade.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit.h"
#include "common/or_throw.h"
#include "common/progress.h"
#include "common/sale_requests.h"
#include "common/stop_signal.h"
#include "common/temp_directory.h"
#include "options.h"
#include "sale.h"
#include "sale_board.h"
#include "sale_page.h"
#include "seller.h"
#include "servers.h"

namespace fleet_sale {
namespace {

using examples::OrThrow;
using examples::Progress;
using examples::SaleRequest;
using examples::SaleRequests;
using examples::StopSignal;
using examples::TempDirectory;

constexpr int kHolds = 0;
constexpr int kDoesNotHold = 1;
constexpr int kBadInput = 2;
constexpr int kStopped = 130;

constexpr size_t kMostFaultsReported = 20;

int Fail(const std::string& message) {
  std::fprintf(stderr, "fleet_sale: %s\n", message.c_str());
  return kBadInput;
}

struct HalfReport {
  Audit audit;
  SaleFigures figures;
  absl::Duration duration;
};

HalfReport RunHalf(Half half, const SaleSetup& setup) {
  Sale sale(half, setup);
  const Audit audit = sale.Run();
  return {.audit = audit, .figures = sale.Figures(), .duration = sale.duration()};
}

std::string Row(const char* what, int64_t naive, int64_t stockade) {
  return absl::StrFormat("%-44s %12d %12d\n", what, naive, stockade);
}

std::string ReportTable(const HalfReport& naive, const HalfReport& stockade) {
  return absl::StrCat(absl::StrFormat("%-44s %12s %12s\n", "", "naive", "Stockade"),
                      Row("orders in MariaDB", naive.audit.sold, stockade.audit.sold),
                      Row("  oversold: units that were not there", naive.audit.oversold, stockade.audit.oversold),
                      Row("  taken twice: repeats of a request", naive.audit.duplicates, stockade.audit.duplicates),
                      Row("  lost: units that nobody can buy any more", naive.audit.lost, stockade.audit.lost),
                      Row("buyers that have bought", naive.figures.sold, stockade.figures.sold),
                      Row("requests that failed and were sent again", naive.figures.retries, stockade.figures.retries),
                      absl::StrFormat("%-44s %10.1f s %10.1f s\n", "time of the sale",
                                      absl::ToDoubleSeconds(naive.duration), absl::ToDoubleSeconds(stockade.duration)));
}

// With less, MariaDB would wait for room in the middle of the sale.
absl::Status CheckRoom(const std::string& directory) {
  constexpr uintmax_t kMegabytes = 128;
  std::error_code error;
  const std::filesystem::space_info room = std::filesystem::space(directory, error);
  if (error || room.available >= kMegabytes << 20) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the servers need some ", kMegabytes, " MB, but ", directory, " has ",
                                             room.available >> 20, " MB: set another TMPDIR"));
}

// A sale of both halves, with servers of its own. Returns whether the audit of Stockade's half holds.
bool RunSale(const Options& options, SaleBoard& board, bool has_page, Progress& progress, StopSignal& stop) {
  const TempDirectory directory = OrThrow(TempDirectory::Create("stockade_fleet_sale"));
  OrThrow(CheckRoom(directory.path()));
  progress.Say(absl::StrCat("starting ", kNodes, " Redis nodes and MariaDB"));
  Servers servers;
  while (!OrThrow(servers.database().Answers())) Pause(stop);
  const SaleSetup setup = {.stock = options.stock,
                           .buyers = options.buyers,
                           .arrival = absl::Seconds(board.arrival_seconds.load()),
                           .directory = directory.path(),
                           .servers = &servers,
                           .board = &board,
                           .has_page = has_page,
                           .progress = &progress,
                           .stop = &stop};

  const HalfReport naive = RunHalf(Half::kNaive, setup);
  progress.Say(absl::StrCat("naive    ", AuditLine(naive.audit)));
  progress.Say(absl::StrCat("naive    ", OrThrow(ExplainNaive(*OrThrow(servers.database().Connect())))));
  const HalfReport stockade = RunHalf(Half::kStockade, setup);
  progress.Say(absl::StrCat("\n", ReportTable(naive, stockade)));
  const std::vector<std::string>& faults = stockade.audit.faults;
  for (size_t i = 0; i < faults.size() && i < kMostFaultsReported; ++i) {
    std::fprintf(stderr, "fleet_sale: %s\n", faults[i].c_str());
  }
  if (has_page) progress.Say("serving until SIGINT or SIGTERM");
  progress.Say(AuditLine(stockade.audit));
  return stockade.audit.Holds();
}

// Sales, one after the other: one, and with --serve as many as are started.
int Run(const Options& options, StopSignal& stop) {
  Progress progress;
  SaleBoard board = {.stock = options.stock, .buyers = options.buyers};
  SaleRequests requests;
  std::unique_ptr<SalePage> page;
  if (options.serve) {
    page = OrThrow(SalePage::Start(options.port, &board, &requests));
    progress.Say(absl::StrCat("page: http://127.0.0.1:", page->port(), "/"));
  }
  board.arrival_seconds = options.seconds;
  bool all_hold = RunSale(options, board, page != nullptr, progress, stop);
  while (page != nullptr) {
    requests.Open();
    if (stop.Wait(requests.fd())) break;
    const SaleRequest next = requests.Take();
    progress.Say(absl::StrCat("\nsale ", next.number));
    board.naive.Begin();
    board.stockade.Begin();
    board.number = next.number;
    board.arrival_seconds = next.arrival > absl::ZeroDuration() ? absl::ToInt64Seconds(next.arrival) : options.seconds;
    all_hold = RunSale(options, board, true, progress, stop) && all_hold;
  }
  return all_hold ? kHolds : kDoesNotHold;
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "seller") == 0) {
    const absl::StatusOr<SellerPlan> plan = SellerPlan::Parse(argc, argv);
    if (!plan.ok()) return Fail(std::string(plan.status().message()));
    RunSeller(*plan);
    return 0;
  }
  const absl::StatusOr<Options> options = ParseOptions(argc, argv);
  if (!options.ok()) return Fail(std::string(options.status().message()));
  if (options->help) {
    std::fputs(UsageText(), stdout);
    return kHolds;
  }
  StopSignal stop;
  try {
    return Run(*options, stop);
  } catch (const std::runtime_error& error) {
    // A signal to all processes of a terminal ends the servers, too, which may be the first error that is seen.
    if (!stop.Came()) return Fail(error.what());
    std::fprintf(stderr, "fleet_sale: stopped by a signal\n");
    return kStopped;
  }
}

}  // namespace
}  // namespace fleet_sale

int main(int argc, char** argv) { return fleet_sale::Main(argc, argv); }
