// Ten drivers on two services grab the same order at the same moment: exactly one gets it.

#include <barrier>
#include <charconv>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dispatch_service.h"
#include "order_store.h"
#include "stockade/locks/connect_lock_service.h"

namespace grab_order {
namespace {

constexpr int kServices = 2;
constexpr int kDrivers = 10;
constexpr int64_t kMostOrders = 100'000;

constexpr int kEachOrderHasOne = 0;
constexpr int kSomeOrderHasNot = 1;
constexpr int kFailed = 2;

constexpr char kUsage[] = R"txt(usage: grab_order [options]
Ten drivers on two services try to take the same order at the same moment: exactly one gets it.

  --locks URL    server for the locks (default: local:)
                   local:  in this process, without a server
                   redis://, unix://, redis+sentinel://, redis+cluster://
                   zookeeper://HOST[:PORT][,HOST...][/CHROOT]
                   mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE  with ?create_schema=1 the first time
  --orders N     number of orders, one after another, 1 to 100000 (5)
  --help         print this text

Exit status: 0 each order was given to exactly one driver, 1 otherwise, 2 invalid input or an unusable server.
)txt";

struct Options {
  bool help = false;
  std::string locks = "local:";
  int64_t orders = 5;
};

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--help") {
      options.help = true;
      continue;
    }
    if (name != "--locks" && name != "--orders") {
      return absl::InvalidArgumentError(absl::StrCat("unknown option '", argv[i], "' (--help lists them)"));
    }
    if (i + 1 == argc) return absl::InvalidArgumentError(absl::StrCat(argv[i], " takes a value"));
    const std::string_view value = argv[++i];
    if (name == "--locks") {
      options.locks = value;
      continue;
    }
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, options.orders);
    if (error != std::errc{} || rest != end || options.orders < 1 || options.orders > kMostOrders) {
      return absl::InvalidArgumentError(
          absl::StrCat("--orders takes a whole number from 1 to ", kMostOrders, ", not '", argv[i], "'"));
    }
  }
  return options;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "grab_order: %s\n", std::string(status.message()).c_str());
  return kFailed;
}

// Two runs on one engine do not meet.
std::string NewPlace() {
  std::random_device random;
  return absl::StrCat("grab_order:", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

char ServiceOf(int driver) { return static_cast<char>('A' + driver % kServices); }

// All drivers go for order 1, and once each has an answer, for order 2, and so on. The first error of any of them.
absl::Status GrabAll(const std::vector<std::unique_ptr<DispatchService>>& services, int64_t orders) {
  std::barrier together(kDrivers);
  std::mutex mutex;
  absl::Status first_error = absl::OkStatus();  // Guarded by mutex.
  std::vector<std::thread> drivers;
  drivers.reserve(kDrivers);
  for (int driver = 0; driver < kDrivers; ++driver) {
    drivers.emplace_back([&, driver] {
      DispatchService& service = *services[static_cast<size_t>(driver % kServices)];
      for (int64_t order = 1; order <= orders; ++order) {
        together.arrive_and_wait();
        absl::StatusOr<bool> grabbed = service.Grab(order, driver);
        if (grabbed.ok()) continue;
        together.arrive_and_drop();
        const std::lock_guard lock(mutex);
        first_error.Update(grabbed.status());
        return;
      }
    });
  }
  for (std::thread& driver : drivers) driver.join();
  return first_error;
}

int Report(const OrderStore& store, int64_t orders) {
  int64_t wrong = 0;
  for (int64_t order = 1; order <= orders; ++order) {
    const std::vector<int> drivers = store.DriversOf(order);
    std::string who;
    for (const int driver : drivers) {
      absl::StrAppend(&who, who.empty() ? "" : ", ", "driver ", driver + 1, " by service ",
                      std::string(1, ServiceOf(driver)));
    }
    if (drivers.size() != 1) ++wrong;
    std::printf("order %lld: %s\n", static_cast<long long>(order), who.empty() ? "nobody" : who.c_str());
  }
  std::printf("%lld of %lld orders have exactly one driver\n", static_cast<long long>(orders - wrong),
              static_cast<long long>(orders));
  return wrong == 0 ? kEachOrderHasOne : kSomeOrderHasNot;
}

int Main(int argc, char** argv) {
  absl::StatusOr<Options> options = ParseOptions(argc, argv);
  if (!options.ok()) return Fail(options.status());
  if (options->help) {
    std::fputs(kUsage, stdout);
    return kEachOrderHasOne;
  }
  OrderStore store;
  const std::string place = NewPlace();
  std::vector<std::unique_ptr<DispatchService>> services;
  services.reserve(kServices);
  for (int i = 0; i < kServices; ++i) {
    // Each has a connection of its own, as on two machines. A server on a busy one may take long.
    absl::StatusOr<std::unique_ptr<stockade::LockService>> locks = stockade::ConnectLockService(
        options->locks, {.name = "grab_order", .engine_timeout = absl::Seconds(15), .metrics = nullptr});
    if (!locks.ok()) return Fail(locks.status());
    services.push_back(std::make_unique<DispatchService>(*std::move(locks), place, &store));
  }
  if (absl::Status grabbed = GrabAll(services, options->orders); !grabbed.ok()) return Fail(grabbed);
  return Report(store, options->orders);
}

}  // namespace
}  // namespace grab_order

int main(int argc, char** argv) { return grab_order::Main(argc, argv); }
