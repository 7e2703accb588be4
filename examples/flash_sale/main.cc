// A flash sale behind a product cache, twice under the same load: as most services are written, then with Stockade.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit.h"
#include "catalogue.h"
#include "live_page.h"
#include "load.h"
#include "naive_shop.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "sale_board.h"
#include "shop_door.h"
#include "stockade/metrics/metrics_server.h"
#include "stockade_shop.h"
#include "stop_signal.h"
#include "workspace.h"
#include "zipf.h"

namespace flash_sale {
namespace {

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

absl::StatusOr<HalfReport> RunNaive(const Workspace& files, const LoadPlan& plan, absl::Duration hot_ttl,
                                    HalfBoard* board, Progress* progress) {
  HotKeyLog log(hot_ttl);
  Catalogue catalogue(files.catalogue, plan.hot, &log);
  auto shop = NaiveShop::Create(files.naive_orders, &catalogue, plan.hot, hot_ttl, plan.stock);
  if (!shop.ok()) return shop.status();
  HalfReport half{.load = RunLoad({"naive", shop->get(), &catalogue, &log, board}, plan, progress), .audit = {}};
  shop->reset();
  absl::StatusOr<StockAudit> audit = AuditOrders(files.naive_orders);
  if (!audit.ok()) return audit.status();
  half.audit = *std::move(audit);
  board->Judge(half.audit, half.load.hot_key.LoadsPerExpiry());
  return half;
}

// `unstarted` may be null: then nothing is served but the metrics.
int RunBoth(const Options& options, const std::vector<ProductId>& views, const Workspace& files,
            std::unique_ptr<LivePage> unstarted, Progress* progress) {
  const LoadPlan plan{.views = &views,
                      .hot = MostViewed(views),
                      .viewers = options.viewers,
                      .buyers = options.buyers,
                      .stock = options.stock,
                      .duration = absl::Seconds(options.seconds),
                      .seed = options.seed};
  if (absl::Status made = MakeCatalogue(files.catalogue, views); !made.ok()) return Fail(made);
  HotKeyLog log(options.hot_ttl());
  Catalogue catalogue(files.catalogue, plan.hot, &log);
  // Made before the first half, so that its metrics are there from the start.
  const StockadeShopOptions shop_options{.ledger_path = files.ledger,
                                         .ack_log_path = files.ack_log,
                                         .hot = plan.hot,
                                         .hot_ttl = options.hot_ttl(),
                                         .stock = options.stock,
                                         .shards = static_cast<int32_t>(options.shards)};
  auto shop = StockadeShop::Create(shop_options, &catalogue);
  if (!shop.ok()) return Fail(shop.status());
  SaleBoard board{.facts = {.product = plan.hot, .stock = plan.stock, .buyers = plan.buyers, .viewers = plan.viewers}};
  ShopDoor door;
  door.Open(shop->get());
  const std::unique_ptr<LivePage> page = std::move(unstarted);  // Here, to go before what it uses.
  if (page != nullptr) page->Start(&board, &door, &log);
  progress->Say(absl::StrFormat(
      "on sale: product %d, its page cached for %d ms; a query for a product takes %d ms in both halves", plan.hot,
      absl::ToInt64Milliseconds(options.hot_ttl()), absl::ToInt64Milliseconds(kQueryTime)));

  const absl::StatusOr<HalfReport> naive = RunNaive(files, plan, options.hot_ttl(), &board.naive, progress);
  if (!naive.ok()) return Fail(naive.status());
  progress->Say(absl::StrCat("naive    ", AuditLine(naive->audit, naive->load.hot_key)));
  if (naive->audit.oversold > 0) progress->Say(absl::StrCat("naive    ", ExplainOversold(naive->audit)));

  HalfReport stockade{.load = RunLoad({"stockade", shop->get(), &catalogue, &log, &board.stockade}, plan, progress),
                      .audit = {}};
  door.Close();
  shop->reset();  // Closes the ledger, for the audit to read.
  absl::StatusOr<StockAudit> audit = AuditLedger(files.ledger, files.ack_log);
  if (!audit.ok()) return Fail(audit.status());
  stockade.audit = *std::move(audit);
  if (page != nullptr) {
    shop = StockadeShop::Reopen(shop_options, &catalogue);
    if (!shop.ok()) return Fail(shop.status());
    door.Open(shop->get());
  }
  // Last, so that what the page calls done is all there.
  board.stockade.Judge(stockade.audit, stockade.load.hot_key.LoadsPerExpiry());

  progress->Say(absl::StrCat("\n", ReportTable(*naive, stockade)));
  TellFaults(stockade.audit);
  TellWhy(stockade);
  std::optional<StopSignal> stop;
  if (options.serve) {
    stop.emplace();
    progress->Say("serving until SIGINT or SIGTERM");
  }
  progress->Say(AuditLine(stockade.audit, stockade.load.hot_key));
  if (stop) stop->Wait();
  return Holds(stockade) ? kHolds : kDoesNotHold;
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
  return RunBoth(*options, views, *files, has_page ? *std::move(page) : nullptr, &progress);
}

}  // namespace
}  // namespace flash_sale

int main(int argc, char** argv) { return flash_sale::Main(argc, argv); }
