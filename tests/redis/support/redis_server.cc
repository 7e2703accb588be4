#include "redis/support/redis_server.h"

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <utility>

#include "redis/support/loopback.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

using ::stockade::internal::Concat;
using ::stockade::internal::Fatal;

RedisServer::RedisServer(RedisServerOptions options) : options_(std::move(options)) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    port_ = FreePort();
    if (options_.cluster) bus_port_ = FreePort();
    WriteConfig();
    if (Start()) return;
  }
  Fatal(Concat("no port for redis-server: ", log()));
}

RedisServer::~RedisServer() = default;

std::string RedisServer::url() const { return Concat("redis://127.0.0.1:", port_); }

std::string RedisServer::log() const {
  return process_ == nullptr ? earlier_log_ : Concat(process_->out(), process_->err(), earlier_log_);
}

void RedisServer::WriteConfig() const {
  std::ofstream config(dir_.File("redis.conf"));
  config << "port " << port_ << "\nbind 127.0.0.1\ndir " << dir_.path() << "\nsave \"\"\nshutdown-timeout 0\n"
         << "repl-diskless-sync-delay 0\nappendonly " << (options_.appendonly ? "yes\n" : "no\n");
  if (options_.unix_socket) config << "unixsocket " << unix_socket() << '\n';
  if (options_.cluster) config << "cluster-enabled yes\ncluster-port " << bus_port_ << '\n';
  if (!options_.password.empty()) config << "requirepass " << options_.password << '\n';
  for (const std::string& user : options_.users) config << "user " << user << '\n';
  if (options_.replica_of) config << "replicaof 127.0.0.1 " << *options_.replica_of << '\n';
  for (const std::string& line : options_.config) config << line << '\n';
}

// False: another program has the port.
bool RedisServer::Start() {
  std::vector<std::string> argv = {"setpriv", "--pdeathsig", "KILL", "redis-server", dir_.File("redis.conf")};
  if (options_.sentinel) argv.push_back("--sentinel");
  process_ = std::make_unique<Subprocess>(argv);
  if (process_->AwaitOutput(options_.sentinel ? "Sentinel ID is" : "eady to accept connections")) return true;
  Kill();
  if (earlier_log_.find("ddress already in use") == std::string::npos) Fatal(Concat("redis-server: ", earlier_log_));
  return false;
}

RawReply RedisServer::Call(const std::vector<std::string>& command) const {
  RawRedis connection(port_);
  if (!options_.password.empty()) {
    RawReply allowed = connection.Call({"AUTH", options_.password});
    if (allowed.type != '+') return allowed;
  }
  return connection.Call(command);
}

void RedisServer::KillConnections() const {
  for (const char* const type : {"normal", "pubsub"}) {
    const RawReply killed = Call({"CLIENT", "KILL", "TYPE", type});
    if (killed.type != ':') Fatal(Concat("CLIENT KILL TYPE ", type, ": ", killed.text));
  }
}

std::string RedisServer::Info(const std::string& field) const { return InfoField(Call({"INFO"}).text, field); }

void RedisServer::Stop() {
  if (!running()) return;
  process_->Kill(SIGTERM);
  Resume();  // A paused process meets its SIGTERM only then.
  process_->Wait();
  earlier_log_ = log();
  process_.reset();
}

void RedisServer::Kill() {
  if (!running()) return;
  process_->Kill(SIGKILL);
  process_->Wait();
  earlier_log_ = log();
  process_.reset();
}

void RedisServer::Pause() {
  process_->Kill(SIGSTOP);
  siginfo_t stopped = {};
  while (waitid(P_PID, static_cast<id_t>(process_->pid()), &stopped, WSTOPPED | WEXITED | WNOWAIT) < 0) {
  }
}

void RedisServer::Resume() { process_->Kill(SIGCONT); }

void RedisServer::Restart() {
  Stop();
  if (!Start()) Fatal(Concat("port ", port_, " was taken while redis-server was down"));
}

}  // namespace stockade::testing
