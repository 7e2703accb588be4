#include "sale.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/or_throw.h"
#include "naive_shop.h"
#include "stockade_shop.h"

namespace fleet_sale {
namespace {

using examples::OrThrow;
using examples::Process;

// Buyers arrive in groups of so many, which compete.
constexpr int64_t kGroup = 50;
constexpr absl::Duration kTick = absl::Milliseconds(10);
constexpr absl::Duration kBetweenUpdates = absl::Milliseconds(100);
// A sale that makes no progress for so long has failed. Longer than a busy machine takes to restart MariaDB.
constexpr absl::Duration kPatience = absl::Minutes(2);

// The nodes and the process that the faults are about, by their index.
constexpr int kEmptied = 0;
constexpr int kRolledBack = 1;
constexpr int kKilled = 1;

}  // namespace

void Pause(examples::StopSignal& stop) {
  if (stop.Came()) throw Stopped();
  absl::SleepFor(kTick);
}

Sale::Sale(Half half, const SaleSetup& setup)
    : half_(half),
      setup_(setup),
      label_(half == Half::kNaive ? "naive" : "stockade"),
      path_(absl::StrCat(setup.directory, "/", label_)),
      board_(half == Half::kNaive ? &setup.board->naive : &setup.board->stockade),
      shared_(OrThrow(SharedSale::Create(path_, setup.buyers))) {}

void Sale::StartProcess(int number) {
  const SellerPlan plan = {
      .half = half_, .number = number, .stock = setup_.stock, .shared = path_, .urls = setup_.servers->urls()};
  shared_.process(number).open = false;
  processes_[number] = OrThrow(Process::Start(plan.Argv()));
}

SaleFigures Sale::Figures() {
  SaleFigures figures;
  for (int64_t i = 0; i < shared_.buyers(); ++i) {
    figures.answered += shared_.answered(i);
    figures.sold += shared_.buyer(i).first > 0;
  }
  for (int i = 0; i < kProcesses; ++i) figures.retries += shared_.process(i).retries;
  return figures;
}

std::string Sale::Detail() {
  const SaleFigures figures = Figures();
  return absl::StrCat(figures.answered, " buyers answered, ", figures.sold, " have bought, ", figures.retries,
                      " requests failed and were sent again");
}

void Sale::Say(const std::string& text) { setup_.progress->Say(absl::StrCat(label_, ": ", text)); }

void Sale::Report(const std::string& text) {
  Say(text);
  board_->Add(Event{.elapsed = absl::Now() - opened_, .text = text});
}

void Sale::Show() {
  const SaleFigures figures = Figures();
  setup_.progress->Update(label_, static_cast<double>(figures.answered) / static_cast<double>(setup_.buyers), Detail());
  const absl::Time now = absl::Now();
  if (figures.answered != last_answered_) last_change_ = now;
  last_answered_ = figures.answered;
  if (now - last_change_ > kPatience) OrThrow(absl::DeadlineExceededError("the sale makes no progress"));
  if (now > opened_) board_->Add(Moment{.elapsed = now - opened_, .figures = figures});
  if (!segments_) return;
  if (std::optional<std::vector<Segment>> segments = segments_->Read()) board_->SetSegments(*std::move(segments));
}

void Sale::Tick(int64_t limit) {
  Pause(*setup_.stop);
  const absl::Time now = absl::Now();
  if (now > opened_) {
    const double share = std::min(absl::FDivDuration(now - opened_, setup_.arrival), 1.0);
    const int64_t groups = static_cast<int64_t>(share * static_cast<double>(setup_.stock)) / kGroup + 1;
    shared_.arrived() = std::max<int64_t>(shared_.arrived(), std::min(groups * kGroup, limit));
  }
  if (now - last_update_ < kBetweenUpdates) return;
  last_update_ = now;
  Show();
}

void Sale::AwaitOpen() {
  last_change_ = absl::Now();
  for (int i = 0; i < kProcesses; ++i) {
    while (!shared_.process(i).open) {
      if (processes_[i]->HasEnded()) OrThrow(absl::InternalError("a selling process has ended early"));
      Tick(0);
    }
  }
}

std::vector<Sale::Fault> Sale::Faults() {
  Servers& servers = *setup_.servers;
  const std::string rolled_back = absl::StrCat("Redis node ", kRolledBack + 1);
  const std::string emptied = absl::StrCat("Redis node ", kEmptied + 1);
  const std::string killed = absl::StrCat("process ", kKilled + 1);
  return {
      {.share = 0.10,
       .text = absl::StrCat(rolled_back, " saves a snapshot"),
       .begin = [&servers] { servers.Command(kRolledBack, "SAVE"); }},
      {.share = 0.25,
       .text = absl::StrCat("fault 1 of 4: ", killed, " is killed (SIGKILL)"),
       .begin =
           [this] {
             processes_[kKilled]->Signal(SIGKILL);
             while (!processes_[kKilled]->ended()) processes_[kKilled]->Await();
             StartProcess(kKilled);
           },
       .is_over = [this] { return shared_.process(kKilled).open.load(); },
       .text_after = absl::StrCat(killed, " is back, and its buyers send their requests again with the same ids")},
      {.share = 0.45,
       .text = absl::StrCat("fault 2 of 4: ", rolled_back, " is killed, and comes back with that old snapshot"),
       .begin =
           [&servers] {
             servers.node(kRolledBack).Kill();
             OrThrow(servers.node(kRolledBack).Restart());
           }},
      {.share = 0.60,
       .text = "fault 3 of 4: MariaDB is killed (SIGKILL)",
       .begin =
           [&servers] {
             servers.database().Kill();
             OrThrow(servers.database().Restart());
           },
       .is_over = [&servers] { return OrThrow(servers.database().Answers()); },
       .text_after = "MariaDB is back"},
      {.share = 0.75,
       .between_requests = true,
       .text = absl::StrCat("fault 4 of 4: ", emptied, " is emptied (FLUSHALL)"),
       .begin = [&servers] { servers.Command(kEmptied, "FLUSHALL"); }},
  };
}

void Sale::InjectFaults() {
  const std::vector<Fault> faults = Faults();
  const auto limit = [&](size_t next) {
    if (next == faults.size()) return setup_.stock;
    return static_cast<int64_t>(faults[next].share * static_cast<double>(setup_.stock));
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    while (shared_.arrived() < limit(i)) Tick(limit(i));
    while (faults[i].between_requests && Figures().answered < limit(i)) Tick(limit(i));
    Report(absl::StrCat(faults[i].text, ", after ", Figures().sold, " buyers have bought"));
    faults[i].begin();
    if (!faults[i].is_over) continue;
    const absl::Time begin = absl::Now();
    while (!faults[i].is_over()) Tick(limit(i + 1));
    Report(absl::StrFormat("%s, after %.1f s", faults[i].text_after, absl::ToDoubleSeconds(absl::Now() - begin)));
  }
  while (shared_.arrived() < setup_.stock) Tick(setup_.stock);
}

Audit Sale::Run() {
  const ServerUrls urls = setup_.servers->urls();
  for (int i = 0; i < kNodes; ++i) setup_.servers->Command(i, "FLUSHALL");
  OrThrow(half_ == Half::kNaive ? NaiveShop::Prepare(urls, setup_.stock) : StockadeShop::Prepare(urls));
  for (int i = 0; i < kProcesses; ++i) StartProcess(i);
  AwaitOpen();

  Say(absl::StrCat("the sale opens, ", setup_.stock, " units for ", setup_.buyers, " buyers"));
  opened_ = absl::Now();
  board_->SetStage(Stage::kSale);
  if (setup_.has_page) segments_.emplace(half_, urls);
  InjectFaults();
  shared_.arrived() = setup_.buyers;
  for (std::optional<Process>& process : processes_) {
    while (!process->HasEnded()) Tick(setup_.buyers);
  }
  duration_ = absl::Now() - opened_;
  Show();
  setup_.progress->Finish(label_, Detail());
  board_->SetStage(Stage::kAudit);
  if (Figures().answered < setup_.buyers) OrThrow(absl::InternalError("a selling process has ended early"));

  const auto database = OrThrow(setup_.servers->database().Connect());
  OrThrow(StoreAnswers(*database, label_, shared_));
  Audit audit = OrThrow(half_ == Half::kNaive ? AuditNaive(*database) : AuditStockade(*database));
  board_->Judge(audit);
  return audit;
}

}  // namespace fleet_sale
