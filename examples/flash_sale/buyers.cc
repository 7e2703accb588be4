#include "buyers.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "sleep_until.h"
#include "stockade/base/clock.h"

namespace flash_sale {
namespace {

using stockade::Clock;
using stockade::Instant;

// A number below 10 that depends on the buyer, and on what is asked about the buyer (splitmix64).
uint64_t Draw(uint64_t seed, int64_t buyer, uint64_t question) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(buyer) * 2 + question;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) % 10;
}

std::string RequestId(int64_t buyer) { return absl::StrCat("request-", buyer); }

enum Question : uint64_t { kRetries, kDecides };

}  // namespace

void Buyers::Run(int64_t buyers, const Arrivals& arrivals) {
  const Instant start = Clock::System()->Now();
  PlayAll(buyers, [&](int64_t buyer) {
    const int64_t group = buyer / kThreads;
    if (buyer < arrivals.buyers) SleepUntil(start + arrivals.time * group * kThreads / arrivals.buyers);
    Play(buyer);
  });
  AwaitNoneHeld();
  // A buyer that comes back buys at once, so there is one round, unless the machine stood still for longer than a
  // reservation lasts.
  for (int64_t abandoned = -1; abandoned != counts_.abandoned;) {
    abandoned = counts_.abandoned;
    std::vector<int64_t> again;
    {
      const std::lock_guard lock(refused_mutex_);
      again.swap(refused_);
    }
    PlayAll(static_cast<int64_t>(again.size()), [&](int64_t i) { PlayAgain(again[i]); });
    AwaitNoneHeld();
  }
}

void Buyers::PlayAll(int64_t count, const std::function<void(int64_t)>& play) {
  std::atomic<int64_t> next{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < std::min<int64_t>(kThreads, count); ++t) {
    threads.emplace_back([&] {
      for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) play(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Buyers::ViewPage() {
  const HotKeyLog::View view(*log_);
  if (absl::StatusOr<Product> page = shop_->View(hot_); !page.ok()) errors_->Add(page.status());
}

void Buyers::PlayAgain(int64_t buyer) {
  ViewPage();
  bool refused = false;
  const int64_t order = Ask(RequestId(buyer), 0, refused);
  if (order != 0) Buy(order);
  if (refused) WasRefused(buyer);
  served_.fetch_add(1, std::memory_order_relaxed);
}

void Buyers::Play(int64_t buyer) {
  ViewPage();
  const std::string request_id = RequestId(buyer);
  bool refused = false;
  int64_t order = Ask(request_id, 0, refused);
  if (Draw(seed_, buyer, kRetries) == 0) {
    ++counts_.retried;
    const int64_t second = Ask(request_id, order, refused);
    // The buyer knows of the last answer only. If the two answers name different orders, no buyer owns the first one:
    // it holds its unit until it expires.
    if (order != 0 && second != 0 && second != order) referee_->Abandoned(kReservationTtl);
    if (second != 0) order = second;
  }
  if (order != 0) {
    Decide(buyer, order);
  } else if (refused) {
    WasRefused(buyer);
  }
  served_.fetch_add(1, std::memory_order_relaxed);
}

void Buyers::WasRefused(int64_t buyer) {
  const std::lock_guard lock(refused_mutex_);
  refused_.push_back(buyer);
}

int64_t Buyers::Ask(const std::string& request_id, int64_t known_order, bool& refused) {
  const uint64_t begun = referee_->Begin();
  const absl::StatusOr<int64_t> order = shop_->Reserve(request_id, kReservationTtl);
  if (order.ok()) {
    referee_->End(begun, *order == known_order ? Referee::Answer::kOther : Referee::Answer::kOrder);
    return *order;
  }
  refused = absl::IsResourceExhausted(order.status());
  referee_->End(begun, refused ? Referee::Answer::kRefused : Referee::Answer::kOther);
  if (!refused) errors_->Add(order.status());
  return 0;
}

void Buyers::Decide(int64_t buyer, int64_t order_id) {
  const uint64_t decision = Draw(seed_, buyer, kDecides);
  if (decision == 0) {
    ++counts_.abandoned;
    referee_->Abandoned(kReservationTtl);
    return;
  }
  if (decision > 1) return Buy(order_id);
  const absl::Status cancelled = shop_->Cancel(order_id);
  if (cancelled.ok()) {
    ++counts_.cancelled;
    referee_->Returned();
  } else {
    EndedOtherwise(cancelled);
  }
}

void Buyers::Buy(int64_t order_id) {
  const absl::Status sold = shop_->Commit(order_id);
  if (sold.ok()) {
    ++counts_.sold;
  } else {
    EndedOtherwise(sold);
  }
}

void Buyers::EndedOtherwise(const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) return errors_->Add(status);
  // The machine was so busy that the reservation ran out first.
  ++counts_.abandoned;
  referee_->Abandoned(kReservationTtl);
}

void Buyers::AwaitNoneHeld() {
  // Long past the TTL: a shop that does not let go by then has its figures audited as they are.
  const Instant deadline = Clock::System()->Now() + kReservationTtl * 10;
  while (Clock::System()->Now() < deadline) {
    const absl::StatusOr<int64_t> held = shop_->Held();
    if (!held.ok()) {
      errors_->Add(held.status());
      return;
    }
    if (*held == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace flash_sale
