// An inventory without memory. This program replaces operator new.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "inventory/scarce_ledger.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/base/log.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/temp_dir.h"

namespace {

constexpr int64_t kAll = INT64_MAX;

// Of this thread.
constinit thread_local int64_t allowed = kAll;  // So many allocations more, then one fails.
constinit thread_local bool only_one_fails = false;
constinit thread_local int64_t failures = 0;

void* AllocateOrNull(size_t size, size_t alignment) {
  if (allowed == 0) {
    ++failures;
    if (only_one_fails) allowed = kAll;
    return nullptr;
  }
  if (allowed != kAll) --allowed;
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* Allocate(size_t size, size_t alignment) {
  void* const memory = AllocateOrNull(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr size_t kUnaligned = 1;

}  // namespace

// Not inlined: g++ 12 would think that what new gave is freed by the wrong one.
[[gnu::noinline]] void* operator new(size_t size) { return Allocate(size, kUnaligned); }
[[gnu::noinline]] void* operator new[](size_t size) { return Allocate(size, kUnaligned); }
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return AllocateOrNull(size, kUnaligned);
}
[[gnu::noinline]] void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return AllocateOrNull(size, kUnaligned);
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return AllocateOrNull(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return AllocateOrNull(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace stockade {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// A clock whose time passes only for threads that do not wait on it. So the reaper finds nothing due, and callers do.
class UnheardClock final : public Clock {
 public:
  Instant Now() const override { return Instant::FromNanoseconds(1'000'000'000) + passed(); }
  Instant CoarseNow() const override { return Now(); }
  absl::Time WallNow() const override { return absl::FromUnixSeconds(1'700'000'000) + passed(); }
  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    waits = true;
    has_waiter_.store(true);
    has_waiter_.notify_all();
    cv.wait(lock);
    return Now() < deadline;
  }
  void Advance(absl::Duration span) { passed_ns_ += absl::ToInt64Nanoseconds(span); }
  void AwaitWaiter() { has_waiter_.wait(false); }
  void ForgetWaiter() { has_waiter_.store(false); }

 private:
  static constinit thread_local bool waits;

  absl::Duration passed() const { return waits ? absl::ZeroDuration() : absl::Nanoseconds(passed_ns_.load()); }

  std::atomic<int64_t> passed_ns_{0};
  std::atomic<bool> has_waiter_{false};
};
constinit thread_local bool UnheardClock::waits = false;

// Threads that run one call each, and go on until the end of the test: so each has its own records, and none is used
// again.
class LastingThreads {
 public:
  ~LastingThreads() {
    end_.count_down();
    for (std::thread& thread : threads_) thread.join();
  }
  void Run(const std::function<void()>& body) {
    std::latch done(1);
    threads_.emplace_back([&] {
      body();
      done.count_down();
      end_.wait();
    });
    done.wait();
  }

 private:
  std::latch end_{1};
  std::vector<std::thread> threads_;
};

enum class Kind { kMemory, kSqlite, kScarce };

// The ledger, and whether one allocation fails, or all from that one on.
class InventoryAllocationTest : public ::testing::TestWithParam<std::tuple<Kind, bool>> {
 protected:
  static constexpr int kGrants = 40;  // Enough for each table, list and heap to grow.

  void SetUp() override {
    SetLogSink([](LogSeverity, std::string_view) {});
    Open();
    Add("shoe", {.stock = 1000, .per_buyer_limit = 3});
    Add("lace", {.stock = 1000});
  }
  void TearDown() override {
    if (kind() == Kind::kSqlite) {
      const std::string before = Look();
      shop_ = nullptr;
      EXPECT_EQ(SqliteLedger::Audit(path()), absl::OkStatus());
      Open();
      EXPECT_EQ(Look(), before) << "after a restart";
    }
    shop_ = nullptr;
    SetLogSink({});
  }

  static Kind kind() { return std::get<0>(GetParam()); }
  std::string path() const { return dir_.File("orders.db"); }

  void Open() {
    clock_.ForgetWaiter();
    std::unique_ptr<Ledger> ledger;
    if (kind() == Kind::kSqlite) {
      ledger = SqliteLedger::Open(path(), {.clock = &clock_, .metrics = nullptr}).value();
    } else if (kind() == Kind::kScarce) {
      ledger = std::make_unique<testing::ScarceLedger>(disk_, 1);
    }
    shop_ = Inventory::Create({.ledger = std::move(ledger),
                               .clock = &clock_,
                               .metrics = &registry_,
                               .stripes = 1,
                               .retention = absl::Hours(1),
                               .sku_metrics = 2})
                .value();
    clock_.AwaitWaiter();  // The reaper.
  }

  void Add(const std::string& sku, const SkuOptions& options) {
    ASSERT_EQ(shop_->AddSku(sku, options), absl::OkStatus());
    skus_.push_back(sku);
  }

  // Longer than what fits into a std::string.
  static std::string Name(const char* of, int k) { return absl::StrCat("a name that is allocated: ", of, " ", k); }

  // All that can be seen of the inventory. Checks that no unit is lost.
  std::string Look() const {
    std::string seen;
    for (const std::string& sku : skus_) {
      const absl::StatusOr<StockFigures> at = shop_->Figures(sku);
      if (!at.ok()) {
        absl::StrAppend(&seen, sku, ": ", absl::StatusCodeToString(at.status().code()), "\n");
        continue;
      }
      EXPECT_EQ(at->granted, at->available + at->held + at->sold) << sku;
      const bool is_for_sale = shop_->Available(sku).ok();
      absl::StrAppend(&seen, sku, ": ", at->granted, " = ", at->available, " + ", at->held, " + ", at->sold,
                      is_for_sale ? "\n" : " removed\n");
    }
    for (const OrderId id : orders_) {
      const absl::StatusOr<OrderState> state = shop_->StateOf(id);
      absl::StrAppend(&seen, id, ": ", state.ok() ? absl::StrCat(static_cast<int>(*state)) : "none", "\n");
    }
    return seen;
  }

  // The status of `call`, whose n-th allocation fails, counted from 0. Sets `failed` if it had so many.
  template <typename Call>
  static absl::Status WithFailure(int n, const Call& call, bool& failed) {
    failures = 0;
    only_one_fails = std::get<1>(GetParam());
    allowed = n;
    absl::Status status = call();
    allowed = kAll;
    failed = failures > 0;
    return status;
  }

  struct Expectations {
    bool may_be_in_doubt = false;  // The call may be Unavailable and done.
    bool on_lasting_threads = false;
  };

  // Lets each allocation of `call` fail in turn, until there are no more. A call that fails must have changed nothing.
  // prepare(k) precedes the call that is to succeed as number k; of these there are more than one if the call can do
  // without some memory. Returns how many calls have succeeded.
  template <typename Prepare, typename Call>
  int FailEach(const Prepare& prepare, const Call& call, Expectations expected) {
    int succeeded = 0;
    prepare(succeeded);
    for (int n = 0;; ++n) {
      SCOPED_TRACE(absl::StrCat("allocation ", n));
      const std::string before = Look();
      bool failed = false;
      absl::Status status;
      if (expected.on_lasting_threads) {
        threads_.Run([&] { status = WithFailure(n, call, failed); });
      } else {
        status = WithFailure(n, call, failed);
      }
      const bool is_in_doubt = expected.may_be_in_doubt && !status.ok() &&
                               status.message().find("not known to be durable") != status.message().npos;
      if (is_in_doubt) {
        EXPECT_EQ(status.message().find("not known"), status.message().rfind("not known")) << status;
      }
      if (status.ok() || is_in_doubt) {
        ++succeeded;
        if (!failed) return succeeded;
        prepare(succeeded);
        continue;
      }
      EXPECT_TRUE(failed) << status;
      if (!failed) return succeeded;
      ++failed_calls_;
      EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("nothing has changed: there is no memory"));
      EXPECT_EQ(Look(), before);
      if (HasFailure()) return succeeded;  // One of them says enough.
    }
  }
  template <typename Prepare, typename Call>
  int FailEach(const Prepare& prepare, const Call& call) {
    return FailEach(prepare, call, {});
  }
  template <typename Call>
  int FailEach(const Call& call) {
    return FailEach([](int) {}, call);
  }

  // For calls that are to be refused.
  static absl::Status FailedPreconditionAsOk(absl::Status status) {
    return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
  }
  static absl::Status RefusalAsOk(Refusal refusal, absl::Status status) {
    return RefusalOf(status) == refusal ? absl::OkStatus() : status;
  }

  // The order of the request, which is answered as before, and takes nothing again.
  template <typename Request>
  OrderId Repeat(const Request& request) {
    const std::string before = Look();
    const auto again = [&] {
      if constexpr (std::is_same_v<Request, TakeRequest>) {
        return shop_->Take(request);
      } else if constexpr (std::is_same_v<Request, ReserveRequest>) {
        return shop_->Reserve(request);
      } else {
        return shop_->ReserveBasket(request);
      }
    }();
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Look(), before);
    return again.ok() ? again->id() : 0;
  }

  OrderId Hold(const std::string& request_id, std::string buyer = "ann", absl::Duration ttl = absl::Minutes(10)) {
    const absl::StatusOr<Reservation> held =
        shop_->Reserve({.sku = "shoe", .request_id = request_id, .buyer = std::move(buyer), .ttl = ttl});
    EXPECT_TRUE(held.ok()) << held.status();
    if (!held.ok()) return 0;
    orders_.push_back(held->id());
    return held->id();
  }

  testing::TempDir dir_;
  const std::shared_ptr<testing::ScarceDisk> disk_ = std::make_shared<testing::ScarceDisk>();
  UnheardClock clock_;
  MetricsRegistry registry_;
  std::unique_ptr<Inventory> shop_;
  std::vector<std::string> skus_;
  std::vector<OrderId> orders_;
  int failed_calls_ = 0;
  LastingThreads threads_;
};

TEST_P(InventoryAllocationTest, Take_WithoutMemory_TakesNothing) {
  int taken = 0;
  TakeRequest request;
  for (int i = 0; i < kGrants; ++i) {
    SCOPED_TRACE(i);
    taken += FailEach(
        [&](int k) {
          request = {.sku = "shoe", .request_id = Name("take", 100 * i + k), .buyer = Name("buyer", 100 * i + k)};
        },
        [&] { return shop_->Take(request).status(); });
    orders_.push_back(Repeat(request));
  }
  EXPECT_GT(failed_calls_, 2 * kGrants);
  EXPECT_EQ(shop_->Figures("shoe")->sold, taken);
}

TEST_P(InventoryAllocationTest, Reserve_WithoutMemory_ReservesNothing) {
  int reserved = 0;
  ReserveRequest request;
  for (int i = 0; i < kGrants; ++i) {
    SCOPED_TRACE(i);
    reserved += FailEach(
        [&](int k) {
          // With deadlines in descending order each one is the earliest.
          request = {.sku = "shoe",
                     .request_id = Name("reserve", 100 * i + k),
                     .buyer = Name("buyer", 100 * i + k),
                     .ttl = absl::Minutes(1000 - i)};
        },
        [&] { return shop_->Reserve(request).status(); });
    orders_.push_back(Repeat(request));
  }
  EXPECT_GT(failed_calls_, 2 * kGrants);
  EXPECT_EQ(shop_->Figures("shoe")->held, reserved);
}

TEST_P(InventoryAllocationTest, ReserveBasket_WithoutMemory_ReservesNoLine) {
  std::vector<OrderLine> lines = {{"shoe", 1}, {"lace", 2}};
  for (int i = 0; i < 40; ++i) {  // More locks than a thread has places for.
    const std::string sku = Name("sku", i);
    Add(sku, {.stock = 100});
    lines.push_back({.sku = sku, .quantity = 1});
  }
  int reserved = 0;
  BasketRequest request;
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    reserved += FailEach(
        [&](int k) {
          request = {.lines = lines, .request_id = Name("basket", 100 * i + k), .buyer = Name("buyer", 100 * i + k)};
        },
        [&] { return shop_->ReserveBasket(request).status(); });
    orders_.push_back(Repeat(request));
  }
  EXPECT_EQ(shop_->Figures("shoe")->held, reserved);
  EXPECT_EQ(shop_->Figures("lace")->held, 2 * reserved);
}

TEST_P(InventoryAllocationTest, Request_WithoutMemory_LeavesTheBuyersLimitAsItIs) {
  ReserveRequest request;
  int reserved = 0;
  const auto prepare = [&](int) {
    request = {.sku = "shoe", .request_id = Name("reserve", reserved++), .buyer = "ann"};
  };
  const auto reserve = [&] { return RefusalAsOk(Refusal::kBuyerLimit, shop_->Reserve(request).status()); };
  for (int i = 0; i < 5; ++i) FailEach(prepare, reserve);
  EXPECT_EQ(shop_->Figures("shoe")->held, 3);
}

TEST_P(InventoryAllocationTest, Refusal_WithoutMemory_IsUnavailable) {
  Add("rare", {.stock = 1});
  const OrderId last = shop_->Reserve({.sku = "rare", .request_id = "last"})->id();
  const auto expect = [&](Refusal refusal, const std::function<absl::Status()>& call) {
    FailEach([&] { return RefusalAsOk(refusal, call()); });
  };
  const ReserveRequest want{.sku = "rare", .request_id = Name("want", 1)};
  expect(Refusal::kAllHeld, [&] { return shop_->Reserve(want).status(); });
  EXPECT_EQ(shop_->Commit(last), absl::OkStatus());
  expect(Refusal::kSoldOut, [&] { return shop_->Reserve(want).status(); });
  const TakeRequest other{.sku = "lace", .request_id = "last"};
  expect(Refusal::kRequestMismatch, [&] { return shop_->Take(other).status(); });
  const TakeRequest unknown{.sku = "nothing", .request_id = Name("want", 2)};
  expect(Refusal::kUnknownSku, [&] { return shop_->Take(unknown).status(); });
}

TEST_P(InventoryAllocationTest, CommitAndCancel_WithoutMemory_LeaveTheOrder) {
  for (int i = 0; i < kGrants; ++i) {
    SCOPED_TRACE(i);
    OrderId id = 0;
    const auto prepare = [&](int k) { id = Hold(Name("held", 100 * i + k), Name("buyer", 100 * i + k)); };
    if (i % 2 == 0) {
      FailEach(prepare, [&] { return shop_->Commit(id); });
      EXPECT_EQ(*shop_->StateOf(id), OrderState::kSold);
      FailEach([&] { return FailedPreconditionAsOk(shop_->Cancel(id)); });
    } else {
      FailEach(prepare, [&] { return shop_->Cancel(id); });
      EXPECT_EQ(*shop_->StateOf(id), OrderState::kCancelled);
      FailEach([&] { return FailedPreconditionAsOk(shop_->Commit(id)); });
    }
  }
}

TEST_P(InventoryAllocationTest, OrderIsDue_WithoutMemory_StaysUntilACallHasIt) {
  for (int i = 0; i < kGrants; ++i) {
    SCOPED_TRACE(i);
    OrderId id = 0;
    ReserveRequest request;
    const auto prepare = [&](int k) {
      request = {.sku = "shoe",
                 .request_id = Name("held", 100 * i + k),
                 .buyer = Name("buyer", 100 * i + k),
                 .ttl = absl::Minutes(1)};
      id = Hold(request.request_id, request.buyer, request.ttl);
      clock_.Advance(absl::Minutes(1));
    };
    const auto commit = [&] { return FailedPreconditionAsOk(shop_->Commit(id)); };
    const auto cancel = [&] { return shop_->Cancel(id); };
    const auto repeat = [&] { return shop_->Reserve(request).status(); };
    if (i % 3 == 0) FailEach(prepare, commit);
    if (i % 3 == 1) FailEach(prepare, cancel);
    if (i % 3 == 2) FailEach(prepare, repeat);
    EXPECT_EQ(*shop_->StateOf(id), OrderState::kExpired);
  }
  EXPECT_EQ(shop_->Figures("shoe")->held, 0);
}

TEST_P(InventoryAllocationTest, Forgetting_WithoutMemory_IsDoneLater) {
  std::vector<TakeRequest> old;
  for (int i = 0; i < kGrants; ++i) {
    old.push_back({.sku = "lace", .request_id = Name("old", i)});
    orders_.push_back(shop_->Take(old.back())->id());
  }
  clock_.Advance(absl::Hours(2));
  TakeRequest request;
  for (int i = 0; i < kGrants; ++i) {
    FailEach([&](int k) { request = {.sku = "lace", .request_id = Name("new", 100 * i + k)}; },
             [&] { return shop_->Take(request).status(); });
  }
  const std::string before = Look();
  for (const TakeRequest& again : old) {
    EXPECT_EQ(RefusalOf(shop_->Take(again).status()), Refusal::kRequestForgotten);
    FailEach([&] { return RefusalAsOk(Refusal::kRequestForgotten, shop_->Take(again).status()); });
  }
  EXPECT_EQ(Look(), before);
}

TEST_P(InventoryAllocationTest, ChangesOfSkus_WithoutMemory_ChangeNothing) {
  std::string sku;
  int added = 0;
  for (int i = 0; i < 3; ++i) {
    const auto prepare = [&](int) { skus_.push_back(sku = Name("sku", added++)); };
    FailEach(prepare, [&] { return shop_->AddSku(sku, {.stock = 10, .per_buyer_limit = 2}); });
    FailEach([&] { return shop_->EnsureSku(sku, {.stock = 10, .per_buyer_limit = 2}); });
    FailEach(prepare, [&] { return shop_->EnsureSku(sku, {.stock = 10, .per_buyer_limit = 2}); });
  }
  const std::string name = sku;
  EXPECT_EQ(shop_->Available(name).value(), 10);
  const int restocked = FailEach([&] { return shop_->Restock(name, 5); });
  EXPECT_EQ(shop_->Available(name).value(), 10 + 5 * restocked);
  int once = 0;
  RestockRequest request;
  for (int i = 0; i < kGrants; ++i) {
    once += FailEach([&](int k) { request = {.sku = name, .request_id = Name("restock", 100 * i + k)}; },
                     [&] { return shop_->Restock(request); });
    EXPECT_EQ(shop_->Restock(request), absl::OkStatus());
  }
  EXPECT_EQ(shop_->Available(name).value(), 10 + 5 * restocked + once);
  FailEach([&] { return shop_->Reshard(name, 1); });
  int removed = 0;
  FailEach([&](int) { sku = Name("sku", removed++); }, [&] { return shop_->RemoveSku(sku); });
  EXPECT_FALSE(shop_->Available(sku).ok());
}

TEST_P(InventoryAllocationTest, Returns_WithoutMemory_ChangeNothing) {
  int64_t returned = 0;
  for (int i = 0; i < kGrants; ++i) {
    const OrderId id = shop_->Take({.sku = "lace", .quantity = 4, .request_id = Name("sold", i)})->id();
    orders_.push_back(id);
    ReturnRequest request{.order = id, .lines = {{.sku = "lace", .quantity = 1}}};
    request.disposition = i % 2 == 0 ? ReturnRequest::Disposition::kToStock : ReturnRequest::Disposition::kWriteOff;
    const int64_t before = shop_->Figures("lace")->sold;
    returned = FailEach([&](int k) { request.request_id = Name("return", 100 * i + k); },
                        [&] { return shop_->Return(request).status(); });
    EXPECT_EQ(shop_->Figures("lace")->sold, before - returned);
    const std::string look = Look();
    FailEach([&] { return shop_->Return(request).status(); });
    request.request_id = Name("too many", i);
    request.lines[0].quantity = 5;
    FailEach([&] { return RefusalAsOk(Refusal::kTooMany, shop_->Return(request).status()); });
    EXPECT_EQ(Look(), look);
  }
}

TEST_P(InventoryAllocationTest, Reads_WithoutMemory_AreUnavailable) {
  const OrderId id = Hold("held");
  FailEach([&] { return shop_->StateOf(id).status(); });
  FailEach([&] {
    const absl::Status status = shop_->StateOf(id + 1'000).status();
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  });
  FailEach([&] { return shop_->Find(id).status(); });
  FailEach([&] { return shop_->Available("shoe").status(); });
  FailEach([&] { return shop_->Figures("shoe").status(); });
  FailEach([&] { return shop_->Snapshot("shoe").status(); });
  FailEach([&] { return shop_->Health(); });
  for (int n = 0;; ++n) {
    bool failed = false;
    size_t shown = 0;
    EXPECT_EQ(WithFailure(
                  n,
                  [&] {
                    shown = shop_->Snapshot().size();
                    return absl::OkStatus();
                  },
                  failed),
              absl::OkStatus());
    EXPECT_EQ(shown, failed ? 0 : 2);
    if (!failed) break;
  }
}

TEST_P(InventoryAllocationTest, Many_WithoutMemory_EachIsDoneOrNot) {
  for (int n = 0;; ++n) {
    SCOPED_TRACE(n);
    std::vector<ReserveRequest> requests;
    for (int i = 0; i < 5; ++i) requests.push_back({.sku = "lace", .request_id = Name("reserve", 10 * n + i)});
    const int64_t before = shop_->Figures("lace")->held;
    bool failed = false;
    std::vector<absl::StatusOr<Reservation>> answers;
    (void)WithFailure(
        n,
        [&] {
          answers = shop_->ReserveMany(requests);
          return absl::OkStatus();
        },
        failed);
    int64_t done = 0;
    std::vector<OrderId> held;
    for (const absl::StatusOr<Reservation>& answer : answers) {
      if (answer.ok()) held.push_back(answer->id());
      EXPECT_TRUE(answer.ok() || RefusalOf(answer.status()) == Refusal::kUnavailable) << answer.status();
      done += answer.ok();
    }
    EXPECT_THAT(answers.size(), AnyOf(0, requests.size()));
    EXPECT_EQ(shop_->Figures("lace")->held, before + done);
    if (!failed) {
      EXPECT_EQ(done, 5);
      break;
    }
    for (const ReserveRequest& request : requests) EXPECT_TRUE(shop_->Reserve(request).ok());
    EXPECT_EQ(shop_->Figures("lace")->held, before + 5);
    for (const absl::Status& status : shop_->CommitMany(held)) EXPECT_EQ(status, absl::OkStatus());
  }
}

TEST_P(InventoryAllocationTest, Async_WithoutMemory_AnswersOnce) {
  ThreadPool pool(1);
  InlineExecutor here;
  for (Executor* const executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&here)}) {
    std::atomic<int> answers{0};
    absl::Status answer;
    ReserveRequest request;
    OrderId id = 0;
    const auto set = [&](const absl::Status& status) {
      answer = status;
      ++answers;
      answers.notify_all();
    };
    const auto wait = [&] {
      answers.wait(0);
      EXPECT_EQ(answers.exchange(0), 1);
      return answer;
    };
    const bool pooled = executor == &pool;
    int reserved = 0;
    const int64_t before = shop_->Figures("lace")->held;
    for (int i = 0; i < 10; ++i) {
      reserved += FailEach(
          [&](int k) {
            if (!request.request_id.empty()) orders_.push_back(Repeat(request));
            request = {.sku = "lace", .request_id = Name(pooled ? "pooled" : "here", 100 * i + k)};
          },
          [&] {
            shop_->ReserveAsync(request, *executor,
                                [&set](const absl::StatusOr<Reservation>& done) { set(done.status()); });
            return wait();
          },
          {.may_be_in_doubt = true});
      orders_.push_back(Repeat(request));
      request = {};
    }
    EXPECT_EQ(shop_->Figures("lace")->held, before + reserved);
    FailEach([&](int k) { id = Hold(Name(pooled ? "commit" : "commit here", k), Name("buyer", k)); },
             [&] {
               shop_->CommitAsync(id, *executor, [&set](const absl::Status& done) { set(done); });
               return wait();
             },
             {.may_be_in_doubt = true});
    EXPECT_EQ(*shop_->StateOf(id), OrderState::kSold);
  }
}

TEST_P(InventoryAllocationTest, FirstCallOfAThread_WithoutMemory_ChangesNothing) {
  const Expectations expected{.on_lasting_threads = true};
  ReserveRequest request;
  const auto prepare = [&](int k) {
    request = {.sku = "shoe", .request_id = Name("first", k), .buyer = Name("buyer", k)};
  };
  FailEach(
      prepare, [&] { return shop_->Reserve(request).status(); }, expected);
  const OrderId id = Repeat(request);
  orders_.push_back(id);
  FailEach([](int) {}, [&] { return shop_->Commit(id); }, expected);
  FailEach([](int) {}, [&] { return shop_->Figures("shoe").status(); }, expected);
  std::string sku;
  FailEach([&](int k) { Add(sku = Name("sku", k), {.stock = 1}); }, [&] { return shop_->RemoveSku(sku); }, expected);
}

constexpr auto ParamName = [](const auto& info) {
  constexpr const char* kKinds[] = {"Memory", "Sqlite", "Scarce"};
  return absl::StrCat(kKinds[static_cast<int>(std::get<0>(info.param))],
                      std::get<1>(info.param) ? "_OneFails" : "_AllFailFromOneOn");
};

INSTANTIATE_TEST_SUITE_P(Ledgers, InventoryAllocationTest,
                         ::testing::Combine(::testing::Values(Kind::kMemory, Kind::kSqlite), ::testing::Bool()),
                         ParamName);

// The ledger refuses the record, and the change is undone in memory, with or without room for that.
class InventoryUndoAllocationTest : public InventoryAllocationTest {
 protected:
  // Runs `call` on a full disk until no allocation fails. It changes nothing, and does so once there is room.
  template <typename Call>
  void FailEachOnAFullDisk(const Call& call) {
    for (int n = 0;; ++n) {
      SCOPED_TRACE(absl::StrCat("allocation ", n));
      const std::string before = Look();
      disk_->full = true;
      bool failed = false;
      const absl::Status status = WithFailure(n, call, failed);
      disk_->full = false;
      EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("nothing has changed"));
      (void)shop_->Available("shoe");  // Undoes what could not be undone.
      EXPECT_EQ(shop_->Health(), absl::OkStatus());
      EXPECT_EQ(Look(), before);
      if (HasFailure()) return;
      if (!failed) break;
    }
    EXPECT_EQ(call(), absl::OkStatus());
  }
};

TEST_P(InventoryUndoAllocationTest, DiskIsFull_WithoutMemory_IsUndoneLater) {
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    const ReserveRequest reserve{.sku = "shoe", .request_id = Name("reserve", i), .buyer = Name("ann", i)};
    FailEachOnAFullDisk([&] { return shop_->Reserve(reserve).status(); });
    orders_.push_back(Repeat(reserve));
    const OrderId id = orders_.back();
    if (i % 2 == 0) FailEachOnAFullDisk([&] { return shop_->Commit(id); });
    if (i % 2 == 1) FailEachOnAFullDisk([&] { return shop_->Cancel(id); });
    const TakeRequest take{.sku = "lace", .request_id = Name("take", i)};
    FailEachOnAFullDisk([&] { return shop_->Take(take).status(); });
    const BasketRequest basket{
        .lines = {{"shoe", 1}, {"lace", 1}}, .request_id = Name("basket", i), .buyer = Name("bob", i)};
    FailEachOnAFullDisk([&] { return shop_->ReserveBasket(basket).status(); });
    const RestockRequest restock{.sku = "lace", .request_id = Name("restock", i)};
    FailEachOnAFullDisk([&] { return shop_->Restock(restock); });
    const std::string sku = Name("sku", i);
    skus_.push_back(sku);
    FailEachOnAFullDisk([&] { return shop_->AddSku(sku, {.stock = 1}); });
    FailEachOnAFullDisk([&] { return shop_->RemoveSku(sku); });
  }
}

INSTANTIATE_TEST_SUITE_P(Ledgers, InventoryUndoAllocationTest,
                         ::testing::Combine(::testing::Values(Kind::kScarce), ::testing::Bool()), ParamName);

}  // namespace
}  // namespace stockade
