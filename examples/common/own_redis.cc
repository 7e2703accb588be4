#include "common/own_redis.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

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

void Remove(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnRedis>> OwnRedis::Start() {
  const char* const base = getenv("TMPDIR");
  std::string directory = absl::StrCat(base != nullptr && *base != '\0' ? base : "/tmp", "/stockade_redis-XXXXXX");
  if (mkdtemp(directory.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat(directory, ": ", std::strerror(errno)));
  }
  absl::StatusOr<Process> server = StartServer(directory);
  if (!server.ok()) {
    Remove(directory);
    return server.status();
  }
  std::unique_ptr<OwnRedis> redis(new OwnRedis(directory, *std::move(server)));
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

absl::Status OwnRedis::Restart() {
  absl::StatusOr<Process> server = StartServer(directory_);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return AwaitAnswer();
}

absl::Status OwnRedis::AwaitAnswer() {
  const absl::Time limit = absl::Now() + kStartLimit;
  for (;;) {
    if (std::filesystem::exists(directory_ + "/socket") &&
        stockade::RedisClient::Connect(url(), {.metrics = nullptr}).ok()) {
      return absl::OkStatus();
    }
    if (server_.HasEnded() || absl::Now() > limit) break;
    absl::SleepFor(kBetweenLooks);
  }
  const std::string log = LastLine(directory_ + "/log");
  return absl::UnavailableError(absl::StrCat("redis-server does not start: ", log.empty() ? "is it installed?" : log));
}

OwnRedis::~OwnRedis() {
  if (!server_.ended()) {
    server_.Signal(SIGTERM);
    while (!server_.ended()) server_.Await();
  }
  Remove(directory_);
}

}  // namespace examples
