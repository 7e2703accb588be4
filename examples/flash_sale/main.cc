// A flash sale behind a product cache, twice under the same load: as most services are written, then with Stockade.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit.h"
#include "common/progress.h"
#include "common/sale_requests.h"
#include "common/stop_signal.h"
#include "live_page.h"
#include "load.h"
#include "options.h"
#include "report.h"
#include "sale.h"
#include "sale_board.h"
#include "shop_door.h"
#include "stockade/metrics/metrics_server.h"
#include "workspace.h"
#include "zipf.h"

namespace flash_sale {
namespace {

using examples::Progress;
using examples::SaleRequest;
using examples::SaleRequests;
using examples::StopSignal;

constexpr int kHolds = 0;
constexpr int kDoesNotHold = 1;
constexpr int kBadInput = 2;

constexpr size_t kZipfViews = 200'000;
constexpr size_t kZipfProducts = 10'000;
constexpr double kZipfExponent = 0.9;
constexpr int64_t kLeastExpiries = 3;
constexpr size_t kMostFaultsTold = 20;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "flash_sale: %s\n", std::string(status.message()).c_str());
  return kBadInput;
}

void TellFaults(const StockAudit& audit) {
  for (size_t i = 0; i < audit.faults.size() && i < kMostFaultsTold; ++i) {
    std::fprintf(stderr, "flash_sale: %s\n", audit.faults[i].c_str());
  }
  if (audit.faults.size() > kMostFaultsTold) {
    std::fprintf(stderr, "flash_sale: and %zu more faults\n", audit.faults.size() - kMostFaultsTold);
  }
}

int AuditOnly(const std::string& dir) {
  const Workspace files(dir);
  const absl::StatusOr<StockAudit> audit = AuditLedger(files.ledger, files.ack_log);
  if (!audit.ok()) return Fail(audit.status());
  TellFaults(*audit);
  std::printf("%s\n", AuditLine(*audit, std::nullopt).c_str());
  return audit->Holds() ? kHolds : kDoesNotHold;
}

// Why the Stockade half's figures do not hold, besides the audit's faults.
void TellWhy(const HalfReport& half) {
  if (half.load.errors > 0) {
    std::fprintf(stderr, "flash_sale: %lld calls failed; the first: %s\n", static_cast<long long>(half.load.errors),
                 half.load.first_error.c_str());
  }
  if (!half.load.hot_key.Exact()) {
    std::fprintf(stderr, "flash_sale: %lld queries for the sale's page in %lld expiries\n",
                 static_cast<long long>(half.load.hot_key.queries), static_cast<long long>(half.load.hot_key.expiries));
  }
  if (half.load.hot_key.expiries < kLeastExpiries) {
    std::fprintf(stderr, "flash_sale: only %lld expiries in the run\n",
                 static_cast<long long>(half.load.hot_key.expiries));
  }
}

bool Holds(const HalfReport& half) {
  return half.audit.Holds() && half.load.errors == 0 && half.load.hot_key.Exact() &&
         half.load.hot_key.expiries >= kLeastExpiries;
}

// Sales, one after the other: one, and with --serve as many as are started. `unstarted` may be null: then nothing is
// served but the metrics.
int RunSales(const Options& options, const std::vector<ProductId>& views, const Workspace& files,
             std::unique_ptr<LivePage> unstarted, Progress* progress) {
  const LoadPlan plan{.views = &views,
                      .hot = MostViewed(views),
                      .viewers = options.viewers,
                      .buyers = options.buyers,
                      .stock = options.stock,
                      .duration = absl::Seconds(options.seconds),
                      .seed = options.seed};
  if (absl::Status made = MakeCatalogue(files.catalogue, views); !made.ok()) return Fail(made);
  SaleBoard board({.product = plan.hot, .stock = plan.stock, .buyers = plan.buyers, .viewers = plan.viewers});
  ShopDoor door;
  SaleRequests requests;
  SaleSetup setup{.files = &files,
                  .plan = plan,
                  .hot_ttl = options.hot_ttl(),
                  .shards = static_cast<int32_t>(options.shards),
                  .board = &board,
                  .door = &door,
                  .progress = progress};
  // Made before the page and the first half, so that its metrics are there from the start.
  absl::StatusOr<std::unique_ptr<Sale>> sale = Sale::Create(setup);
  if (!sale.ok()) return Fail(sale.status());
  const std::unique_ptr<LivePage> page = std::move(unstarted);  // Here, so that it is destroyed before what it uses.
  if (page != nullptr) page->Start(&board, &door, &requests);
  progress->Say(absl::StrFormat(
      "on sale: product %d, its page cached for %d ms; a query for a product takes %d ms in both halves", plan.hot,
      absl::ToInt64Milliseconds(options.hot_ttl()), absl::ToInt64Milliseconds(kQueryTime)));

  bool all_hold = true;
  for (;;) {
    const absl::StatusOr<SaleReport> report = (*sale)->Run(/*reopen=*/page != nullptr);
    if (!report.ok()) return Fail(report.status());
    const HalfReport& stockade = report->stockade;
    progress->Say(absl::StrCat("\n", ReportTable(report->naive, stockade)));
    TellFaults(stockade.audit);
    TellWhy(stockade);
    all_hold = all_hold && Holds(stockade);
    // From here to the next sale: while one runs, the signals end the process at once.
    std::optional<StopSignal> stop;
    if (options.serve) {
      stop.emplace();
      requests.Open();
      progress->Say("serving until SIGINT or SIGTERM");
    }
    progress->Say(AuditLine(stockade.audit, stockade.load.hot_key));
    if (!stop || stop->Wait(requests.fd())) return all_hold ? kHolds : kDoesNotHold;

    const SaleRequest next = requests.Take();
    progress->Say(absl::StrCat("\nsale ", next.number));
    sale->reset();
    if (absl::Status removed = files.RemoveOrders(); !removed.ok()) return Fail(removed);
    board.Begin(next);
    setup.plan.arrival = next.arrival;
    sale = Sale::Create(setup);
    if (!sale.ok()) return Fail(sale.status());
  }
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Options> options = ParseOptions(argc, argv);
  if (!options.ok()) return Fail(options.status());
  if (options->help) {
    std::fputs(UsageText(), stdout);
    return kHolds;
  }
  if (!options->audit_dir.empty()) return AuditOnly(options->audit_dir);

  std::vector<ProductId> views;
  if (options->trace.empty()) {
    views = ZipfViews(kZipfViews, kZipfProducts, kZipfExponent, options->seed);
  } else {
    absl::StatusOr<std::vector<ProductId>> read = ReadTrace(options->trace);
    if (!read.ok()) return Fail(read.status());
    views = *std::move(read);
  }
  absl::StatusOr<std::unique_ptr<LivePage>> page = nullptr;
  if (options->serve) page = LivePage::Bind(options->port);
  const bool no_page = absl::IsUnimplemented(page.status());
  if (!page.ok() && !no_page) return Fail(page.status());
  const bool has_page = page.ok() && *page != nullptr;
  absl::StatusOr<std::unique_ptr<stockade::MetricsServer>> metrics = nullptr;
  if (!has_page) metrics = stockade::MetricsServer::Start({.port = options->port});
  if (!metrics.ok()) return Fail(metrics.status());
  const uint16_t port = has_page ? (*page)->port() : (*metrics)->port();
  const absl::StatusOr<Workspace> files = MakeWorkspace(options->dir);
  if (!files.ok()) return Fail(files.status());

  Progress progress;
  progress.Say(absl::StrCat("metrics: http://127.0.0.1:", port, "/metrics"));
  if (has_page) progress.Say(absl::StrCat("page: http://127.0.0.1:", port, "/"));
  if (no_page) progress.Say(absl::StrCat("page: none, and no API: ", page.status().message()));
  progress.Say(absl::StrCat("files: ", files->dir));
  progress.Say(options->trace.empty()
                   ? absl::StrCat("page views: Zipf over ", kZipfProducts, " products, seed ", options->seed)
                   : absl::StrCat("page views: ", views.size(), " of ", options->trace));
  return RunSales(*options, views, *files, has_page ? *std::move(page) : nullptr, &progress);
}

}  // namespace
}  // namespace flash_sale

int main(int argc, char** argv) { return flash_sale::Main(argc, argv); }
