#include "servers/redis_process.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "harness/suite.h"
#include "servers/free_port.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {

absl::Status RedisProcess::Check() {
  for (const char* program : {"redis-server", "redis-benchmark", "setpriv"}) {
    if (const absl::Status there = PeerProcess::Start({program, "--version"}).status(); !there.ok()) return there;
  }
  return PeerProcess::Start({"openssl", "version"}).status();
}

RedisProcess::RedisProcess(Tls tls) : port_(FreePort()) {
  std::vector<std::string> line = {"setpriv",   "--pdeathsig", "KILL", "redis-server", "--bind",
                                   "127.0.0.1", "--save",      "",     "--appendonly", "no"};
  if (tls == Tls::kWith) {
    directory_ = std::make_unique<TempDir>();
    const std::string key_file = directory_->path() + "/key.pem";
    std::vector<std::string> request = {"sh", "-c", "exec openssl req -x509 \"$@\" 2>/dev/null", "sh"};
    request.insert(request.end(),
                   {"-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"});
    request.insert(request.end(), {"-subj", "/CN=stockade bench", "-addext", "subjectAltName=IP:127.0.0.1"});
    request.insert(request.end(), {"-keyout", key_file, "-out", ca_file()});
    const auto openssl = Require(PeerProcess::Start(std::move(request)), "openssl");
    // It prints nothing to its standard output, whose end is that of the program.
    (void)openssl->ReadLine(absl::Seconds(30));
    line.insert(line.end(), {"--port", "0", "--tls-port", std::to_string(port_), "--tls-cert-file", ca_file(),
                             "--tls-key-file", key_file, "--tls-ca-cert-file", ca_file(), "--tls-auth-clients", "no"});
  } else {
    line.insert(line.end(), {"--port", std::to_string(port_)});
  }
  process_ = Require(PeerProcess::Start(std::move(line)), "redis-server");
  for (;;) {
    const std::string line = Require(process_->ReadLine(absl::Seconds(30)), "redis-server");
    if (line.find("Ready to accept connections") != std::string::npos) return;
  }
}

std::string RedisProcess::url() const {
  const std::string host = "127.0.0.1:" + std::to_string(port_);
  return directory_ == nullptr ? "redis://" + host : "rediss://" + host + "?tls_ca=" + ca_file();
}

double RedisProcess::RedisBenchmark(const std::vector<std::string>& words, int64_t commands,
                                    int64_t random_below) const {
  std::vector<std::string> line = {
      "redis-benchmark",        "-h",   "127.0.0.1", "-p", std::to_string(port_), "-c", "4", "-P", "16", "-n",
      std::to_string(commands), "--csv"};
  if (random_below > 0) line.insert(line.end(), {"-r", std::to_string(random_below)});
  line.insert(line.end(), words.begin(), words.end());
  const auto process = Require(PeerProcess::Start(std::move(line)), "redis-benchmark");
  Require(process->ReadLine(absl::Seconds(60)), "redis-benchmark");  // The columns' names.
  const std::string figures = Require(process->ReadLine(absl::Seconds(60)), "redis-benchmark");
  // "GET key","705882.31","0.085",...
  const std::vector<std::string> columns = absl::StrSplit(figures, "\",\"");
  double per_second = 0;
  if (columns.size() < 2 || !absl::SimpleAtod(columns[1], &per_second)) {
    base_internal::Fatal(base_internal::Concat("bench: redis-benchmark printed ", figures));
  }
  return per_second;
}

}  // namespace stockade::bench
