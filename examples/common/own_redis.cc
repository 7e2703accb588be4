#include "common/own_redis.h"

#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "stockade/redis/redis_client.h"

namespace examples {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(10);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(10);

std::string LastLine(const std::string& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnRedis>> OwnRedis::Start() {
  absl::StatusOr<TempDirectory> directory = TempDirectory::Create("stockade_redis");
  if (!directory.ok()) return directory.status();
  absl::StatusOr<Process> server = StartServer(directory->path());
  if (!server.ok()) return server.status();
  std::unique_ptr<OwnRedis> redis(new OwnRedis(*std::move(directory), *std::move(server)));
  if (absl::Status answered = redis->AwaitAnswer(); !answered.ok()) return answered;
  return redis;
}

absl::StatusOr<Process> OwnRedis::StartServer(const std::string& directory) {
  return Process::Start({"redis-server", "--port", "0", "--unixsocket", directory + "/socket", "--dir", directory,
                         "--save", "", "--appendonly", "no"},
                        directory + "/log");
}

void OwnRedis::Kill() {
  server_.Signal(SIGKILL);
  while (!server_.ended()) server_.Await();
}

void OwnRedis::Pause() { server_.Signal(SIGSTOP); }

void OwnRedis::Continue() { server_.Continue(); }

absl::Status OwnRedis::Restart() {
  absl::StatusOr<Process> server = StartServer(directory_.path());
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return AwaitAnswer();
}

absl::Status OwnRedis::AwaitAnswer() {
  const absl::Time limit = absl::Now() + kStartLimit;
  for (;;) {
    if (std::filesystem::exists(directory_.path() + "/socket") &&
        stockade::RedisClient::Connect(url(), {.metrics = nullptr}).ok()) {
      return absl::OkStatus();
    }
    if (server_.HasEnded() || absl::Now() > limit) break;
    absl::SleepFor(kBetweenLooks);
  }
  const std::string log = LastLine(directory_.path() + "/log");
  return absl::UnavailableError(absl::StrCat("redis-server does not start: ",
                                             log.empty() ? "is it installed? (Debian's package redis-server)" : log));
}

OwnRedis::~OwnRedis() {
  if (!server_.ended()) {
    server_.Signal(SIGTERM);
    while (!server_.ended()) server_.Await();
  }
}

}  // namespace examples
