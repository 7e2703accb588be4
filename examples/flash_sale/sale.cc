#include "sale.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "audit.h"
#include "naive_shop.h"

namespace flash_sale {

Sale::Sale(const SaleSetup& setup)
    : setup_(setup), log_(setup.hot_ttl), catalogue_(setup.files->catalogue, setup.plan.hot, &log_) {}

absl::StatusOr<std::unique_ptr<Sale>> Sale::Create(const SaleSetup& setup) {
  std::unique_ptr<Sale> sale(new Sale(setup));
  auto shop = StockadeShop::Create(sale->ShopOptions(), &sale->catalogue_);
  if (!shop.ok()) return shop.status();
  sale->shop_ = *std::move(shop);
  setup.door->Open(sale->shop_.get(), &sale->log_);
  return sale;
}

StockadeShopOptions Sale::ShopOptions() const {
  return {.ledger_path = setup_.files->ledger,
          .ack_log_path = setup_.files->ack_log,
          .hot = setup_.plan.hot,
          .hot_ttl = setup_.hot_ttl,
          .stock = setup_.plan.stock,
          .shards = setup_.shards};
}

absl::StatusOr<SaleReport> Sale::Run(bool reopen) {
  absl::StatusOr<HalfReport> naive = RunNaive();
  if (!naive.ok()) return naive.status();
  setup_.progress->Say(absl::StrCat("naive    ", AuditLine(naive->audit, naive->load.hot_key)));
  if (naive->audit.oversold > 0) setup_.progress->Say(absl::StrCat("naive    ", ExplainOversold(naive->audit)));
  absl::StatusOr<HalfReport> stockade = RunStockade(reopen);
  if (!stockade.ok()) return stockade.status();
  return SaleReport{.naive = *std::move(naive), .stockade = *std::move(stockade)};
}

absl::StatusOr<HalfReport> Sale::RunNaive() {
  const LoadPlan& plan = setup_.plan;
  HalfBoard* const board = &setup_.board->naive;
  HotKeyLog log(setup_.hot_ttl);
  Catalogue catalogue(setup_.files->catalogue, plan.hot, &log);
  auto shop = NaiveShop::Create(setup_.files->naive_orders, &catalogue, plan.hot, setup_.hot_ttl, plan.stock);
  if (!shop.ok()) return shop.status();
  HalfReport half{.load = RunLoad({"naive", shop->get(), &catalogue, &log, board}, plan, setup_.progress), .audit = {}};
  shop->reset();
  absl::StatusOr<StockAudit> audit = AuditOrders(setup_.files->naive_orders);
  if (!audit.ok()) return audit.status();
  half.audit = *std::move(audit);
  board->Judge(half.audit, half.load.hot_key.LoadsPerExpiry());
  return half;
}

absl::StatusOr<HalfReport> Sale::RunStockade(bool reopen) {
  HalfBoard* const board = &setup_.board->stockade;
  HalfReport half{.load = RunLoad({"stockade", shop_.get(), &catalogue_, &log_, board}, setup_.plan, setup_.progress),
                  .audit = {}};
  setup_.door->Close();
  shop_.reset();  // Closes the ledger, for the audit to read.
  absl::StatusOr<StockAudit> audit = AuditLedger(setup_.files->ledger, setup_.files->ack_log);
  if (!audit.ok()) return audit.status();
  half.audit = *std::move(audit);
  if (reopen) {
    auto shop = StockadeShop::Reopen(ShopOptions(), &catalogue_);
    if (!shop.ok()) return shop.status();
    shop_ = *std::move(shop);
    setup_.door->Open(shop_.get(), &log_);
  }
  // Last, so that what the page calls done is all there.
  board->Judge(half.audit, half.load.hot_key.LoadsPerExpiry());
  return half;
}

}  // namespace flash_sale
