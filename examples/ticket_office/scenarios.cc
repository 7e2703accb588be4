#include "scenarios.h"

#include "absl/strings/str_cat.h"

namespace ticket_office {
namespace {

absl::Status AwaitHome(Sellers& sellers, int64_t from, int64_t to) {
  for (int64_t seller = from; seller < to; ++seller) {
    if (absl::Status home = sellers.AwaitHome(static_cast<size_t>(seller)); !home.ok()) return home;
  }
  return absl::OkStatus();
}

// One crashes while it has the lock, and only then the others come.
absl::Status CrashOne(Sellers& sellers) {
  if (absl::Status started = sellers.Start(1, Fate::kCrashesAtFirstRead); !started.ok()) return started;
  return sellers.AwaitCrashed(0);
}

// Seller number `paused` looks at the number and is paused, until those after it, up to `count`, have sold everything.
absl::Status PauseOneUntilSoldOut(Sellers& sellers, int64_t paused, int64_t count) {
  const auto number = static_cast<size_t>(paused);
  if (absl::Status started = sellers.Start(1, Fate::kPausedAtFirstRead); !started.ok()) return started;
  if (absl::Status in = sellers.AwaitPaused(number); !in.ok()) return in;
  if (absl::Status started = sellers.Start(count - paused - 1); !started.ok()) return started;
  if (absl::Status home = AwaitHome(sellers, paused + 1, count); !home.ok()) return home;
  sellers.Continue(number);
  return sellers.AwaitHome(number);
}

absl::Status RunNoLock(Sellers& sellers, int64_t count) {
  if (absl::Status started = sellers.Start(count, Fate::kPausedAtEachRead); !started.ok()) return started;
  return sellers.KeepInStep();
}

absl::Status RunNoExpiry(Sellers& sellers, int64_t count) {
  if (absl::Status crashed = CrashOne(sellers); !crashed.ok()) return crashed;
  if (absl::Status started = sellers.Start(count - 1); !started.ok()) return started;
  return AwaitHome(sellers, 1, count);
}

absl::Status RunExpiry(Sellers& sellers, int64_t count) { return PauseOneUntilSoldOut(sellers, 0, count); }

// Two are enough, of whatever count.
absl::Status RunBlindDelete(Sellers& sellers, int64_t /*count*/) {
  if (absl::Status started = sellers.Start(1, Fate::kPausedBeforeLeaving); !started.ok()) return started;
  if (absl::Status in = sellers.AwaitPaused(0); !in.ok()) return in;
  // Gets in once the lock of the first has expired.
  if (absl::Status started = sellers.Start(1, Fate::kPausedAtFirstRead); !started.ok()) return started;
  if (absl::Status in = sellers.AwaitPaused(1); !in.ok()) return in;
  // Deletes it, and gets in for one ticket more: the one that the second has just looked at.
  sellers.Continue(0);
  if (absl::Status home = sellers.AwaitHome(0); !home.ok()) return home;
  sellers.Continue(1);
  return sellers.AwaitHome(1);
}

absl::Status RunStockade(Sellers& sellers, int64_t count) {
  if (absl::Status crashed = CrashOne(sellers); !crashed.ok()) return crashed;
  return PauseOneUntilSoldOut(sellers, 1, count);
}

std::string TellNoLock(const Figures& figures, int64_t count) {
  return absl::StrCat("all ", count, " look at the number before any of them writes it: ", figures.sold_again, " of ",
                      figures.sold, " sales are of a ticket that had been sold.");
}

std::string TellNoExpiry(const Figures& figures, int64_t /*count*/) {
  return absl::StrCat("a seller dies with the lock, which stays for ever: ", figures.locked_out, " others give up, ",
                      figures.never_sold, " tickets are never sold.");
}

std::string TellExpiry(const Figures& figures, int64_t /*count*/) {
  return absl::StrCat("a seller is paused past the expiry, and writes its old number when all is sold: ",
                      figures.sold_again, " tickets are sold again.");
}

std::string TellBlindDelete(const Figures& figures, int64_t /*count*/) {
  return absl::StrCat("a seller that was paused past the expiry deletes the lock of the next one (", figures.deleted,
                      "), so two are in at once: tickets sold again: ", figures.sold_again, ".");
}

std::string TellStockade(const Figures& figures, int64_t /*count*/) {
  return absl::StrCat("the lock of the dead seller lapses; the paused one's write comes with an older fencing token, ",
                      "and is refused (", figures.refused, "); its release tells that the lock was lost (",
                      figures.losses_told, "); wrong: ", figures.wrong(), ".");
}

constexpr Scenario kScenarios[] = {
    {'a', "no lock", RunNoLock, TellNoLock},
    {'b', "SET NX, a holder crashes", RunNoExpiry, TellNoExpiry},
    {'c', "with expiry, a holder is paused past it", RunExpiry, TellExpiry},
    {'d', "released without a look at whose it is", RunBlindDelete, TellBlindDelete},
    {'e', "Stockade, with the crash and the pause", RunStockade, TellStockade},
};

}  // namespace

std::span<const Scenario> Scenarios() { return kScenarios; }

}  // namespace ticket_office
