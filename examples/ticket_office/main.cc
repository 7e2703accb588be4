// The ticket seller: processes that sell tickets kept as a plain number, with no lock, with locks as people write them,
// and with Stockade's.

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/own_redis.h"
#include "options.h"
#include "scenarios.h"
#include "seller.h"
#include "seller_lock.h"
#include "sellers.h"
#include "stockade/redis/redis_client.h"
#include "ticket_store.h"

namespace ticket_office {
namespace {

using examples::OwnRedis;

constexpr int kAsItShould = 0;
constexpr int kNotAsItShould = 1;
constexpr int kBadInput = 2;

// We start ourselves as sellers, from wherever we are.
constexpr char kProgram[] = "/proc/self/exe";

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "ticket_office: %s\n", std::string(status.message()).c_str());
  return kBadInput;
}

// Two runs on one server do not meet, nor do scenarios of one run.
std::string PlaceOf(char scenario) {
  std::random_device random;
  return absl::StrCat("{ticket_office:", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8),
                      ":", std::string(1, scenario), "}");
}

absl::StatusOr<Figures> RunScenario(const Scenario& scenario, const Options& options, const std::string& url,
                                    stockade::RedisClient* redis) {
  TicketStore store(redis, PlaceOf(scenario.letter));
  if (absl::Status open = store.Open(options.tickets); !open.ok()) return open;
  absl::Status run = absl::OkStatus();
  {
    const std::string& locks = options.locks.empty() ? url : options.locks;
    Sellers sellers(kProgram, {.scenario = scenario.letter, .redis = url, .locks = locks, .place = store.place()});
    run = scenario.run(sellers, options.sellers);
  }
  absl::StatusOr<Figures> figures = run.ok() ? store.Count(options.tickets) : run;
  absl::Status closed = store.Close();
  if (figures.ok() && !closed.ok()) return closed;
  return figures;
}

void PrintRow(const Scenario& scenario, const Figures& figures) {
  const auto number = [](int64_t figure) { return static_cast<long long>(figure); };
  std::printf("%c  %-42s %6lld %11lld %11lld %14lld %6lld\n", scenario.letter, scenario.what, number(figures.sold),
              number(figures.sold_again), number(figures.never_sold), number(figures.deleted), number(figures.wrong()));
  std::fflush(stdout);
}

int RunAll(const Options& options, const std::string& url, stockade::RedisClient* redis) {
  std::printf("%lld tickets, %lld sellers, each a process\n\n", static_cast<long long>(options.tickets),
              static_cast<long long>(options.sellers));
  std::printf("   %-42s   sold  sold again  never sold  locks deleted  wrong\n", "");
  int status = kAsItShould;
  std::string sentences;
  for (const Scenario& scenario : Scenarios()) {
    if (!options.scenario.empty() && options.scenario[0] != scenario.letter) continue;
    absl::StatusOr<Figures> figures = RunScenario(scenario, options, url, redis);
    if (!figures.ok()) return Fail(figures.status());
    PrintRow(scenario, *figures);
    absl::StrAppend(&sentences, std::string(1, scenario.letter), ": ", scenario.tell(*figures, options.sellers), "\n");
    const bool is_to_go_wrong = scenario.letter != 'e';
    if ((figures->wrong() > 0) != is_to_go_wrong) status = kNotAsItShould;
  }
  std::printf("\n%s", sentences.c_str());
  return status;
}

int Main(int argc, char** argv) {
  if (IsSeller(argc, argv)) return SellerMain(argv);
  absl::StatusOr<Options> options = ParseOptions(argc, argv);
  if (!options.ok()) return Fail(options.status());
  if (options->help) {
    std::fputs(UsageText(), stdout);
    return kAsItShould;
  }
  if (!options->locks.empty()) {
    // Here, before all sellers say the same.
    if (absl::Status connected = ConnectLocks(options->locks).status(); !connected.ok()) return Fail(connected);
  }
  std::unique_ptr<OwnRedis> own;
  if (options->redis.empty()) {
    absl::StatusOr<std::unique_ptr<OwnRedis>> started = OwnRedis::Start();
    if (!started.ok()) {
      return Fail(absl::UnavailableError(absl::StrCat(started.status().message(), " (--redis URL: use another)")));
    }
    own = *std::move(started);
  }
  const std::string url = own != nullptr ? own->url() : options->redis;
  absl::StatusOr<std::unique_ptr<stockade::RedisClient>> redis =
      stockade::RedisClient::Connect(url, {.metrics = nullptr});
  if (!redis.ok()) return Fail(redis.status());
  return RunAll(*options, url, redis->get());
}

}  // namespace
}  // namespace ticket_office

int main(int argc, char** argv) { return ticket_office::Main(argc, argv); }
