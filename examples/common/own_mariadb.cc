#include "common/own_mariadb.h"

#include <signal.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace examples {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(60);
constexpr int kNotFound = 127;
constexpr char kPackage[] = "install Debian's package mariadb-server";

// Debian has the server where the PATH of most users does not lead.
std::string ServerProgram() {
  constexpr char kDebian[] = "/usr/sbin/mariadbd";
  return access(kDebian, X_OK) == 0 ? kDebian : "mariadbd";
}

// The server refuses to run as root unless this option allows it.
std::vector<std::string> WithUser(std::vector<std::string> argv) {
  if (geteuid() == 0) argv.push_back("--user=root");
  return argv;
}

// The first error in the log of a server, or the last line if there is none.
std::string Reason(const std::string& log) {
  std::ifstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (absl::StrContains(line, "[ERROR]")) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

absl::Status StartError(const char* program, const std::string& log) {
  return absl::UnavailableError(absl::StrCat(program, " fails: ", Reason(log)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnMariaDb>> OwnMariaDb::Start() {
  absl::StatusOr<TempDirectory> directory = TempDirectory::Create("stockade_mariadb");
  if (!directory.ok()) return directory.status();
  std::unique_ptr<OwnMariaDb> database(new OwnMariaDb(*std::move(directory)));
  if (database->socket().size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::UnavailableError(absl::StrCat(database->socket(), " is too long for a socket: set a shorter TMPDIR"));
  }
  if (absl::StrContains(database->socket(), " ")) {
    return absl::UnavailableError(
        absl::StrCat("mariadb-install-db cannot handle the blank in ", database->socket(), ": set another TMPDIR"));
  }
  if (absl::Status installed = database->Install(); !installed.ok()) return installed;
  if (absl::Status started = database->Restart(); !started.ok()) return started;
  return database;
}

absl::Status OwnMariaDb::Install() {
  const std::string& dir = directory_.path();
  // --debug-no-sync: of files that are worth nothing yet.
  absl::StatusOr<Process> install =
      Process::Start(WithUser({"mariadb-install-db", "--no-defaults", "--datadir=" + dir + "/data", "--tmpdir=" + dir,
                               "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
                               "--innodb-log-file-size=8M", "--debug-no-sync"}),
                     dir + "/install.log");
  if (!install.ok()) return install.status();
  const Process::State state = install->Await();
  if (state.exit_status == 0) {
    std::ofstream(dir + "/init.sql") << "CREATE DATABASE IF NOT EXISTS shop;\n";
    return absl::OkStatus();
  }
  if (state.exit_status == kNotFound) {
    return absl::UnavailableError(absl::StrCat("mariadb-install-db is not in PATH: ", kPackage));
  }
  return StartError("mariadb-install-db", dir + "/install.log");
}

absl::Status OwnMariaDb::Restart() {
  const std::string& dir = directory_.path();
  absl::StatusOr<Process> server = Process::Start(
      WithUser({ServerProgram(), "--no-defaults", "--datadir=" + dir + "/data", "--tmpdir=" + dir,
                "--socket=" + socket(), "--pid-file=" + dir + "/pid", "--init-file=" + dir + "/init.sql",
                "--skip-networking", "--skip-name-resolve", "--server-id=1", "--log-bin=" + dir + "/binlog",
                "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--binlog-format=ROW",
                "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--max-connections=500"}),
      dir + "/log");
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  start_limit_ = absl::Now() + kStartLimit;
  return absl::OkStatus();
}

absl::StatusOr<bool> OwnMariaDb::Answers() {
  if (server_->HasEnded()) {
    if (access(ServerProgram().c_str(), X_OK) != 0 && Reason(directory_.path() + "/log").empty()) {
      return absl::UnavailableError(absl::StrCat("mariadbd is not installed: ", kPackage));
    }
    return StartError("mariadbd", directory_.path() + "/log");
  }
  if (Connect().ok()) return true;
  if (absl::Now() > start_limit_) return absl::UnavailableError("mariadbd does not answer within a minute");
  return false;
}

void OwnMariaDb::Kill() {
  server_->Signal(SIGKILL);
  while (!server_->ended()) server_->Await();
}

OwnMariaDb::~OwnMariaDb() {
  if (server_ && !server_->ended()) Kill();  // Its data are worth nothing any more.
}

}  // namespace examples
