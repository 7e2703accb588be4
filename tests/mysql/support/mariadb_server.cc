#include "mysql/support/mariadb_server.h"

#include <mysql.h>
#include <mysqld_error.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/loopback.h"
#include "support/subprocess.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;
using ::stockade::base_internal::Fatal;

namespace {

// Debian has the server where the PATH of most users does not lead.
std::string ServerProgram() {
  constexpr char kDebian[] = "/usr/sbin/mariadbd";
  return access(kDebian, X_OK) == 0 ? kDebian : "mariadbd";
}

// What it writes is in the kernel's hands, which outlives the server; waiting for the disk is most of its start.
constexpr char kNoSync[] = "--debug-no-sync";

// The server refuses to run as root unless this option allows it.
std::vector<std::string> WithUser(std::vector<std::string> argv) {
  if (geteuid() == 0) argv.push_back("--user=root");
  return argv;
}

void MustRun(const std::vector<std::string>& argv) {
  const RunResult result = RunToEnd(argv);
  if (result.status != 0) Fatal(Concat(argv[0], ": ", result.out, result.err));
}

// Not in /tmp, where every server that starts removes the files of all others: some servers fail because of that.
std::string TemporaryFiles(const TempDir& dir) { return "--tmpdir=" + dir.path(); }

// The data of a new server, which are the same each time: MariaDB makes them once per build folder and version of the
// server, in most of a second of processor time. Test programs that get here at the same time each make them; the first
// one's are kept.
std::filesystem::path NewData() {
  namespace fs = std::filesystem;
  const RunResult version = RunToEnd({ServerProgram(), "--no-defaults", "--version"});
  const fs::path data = Concat(STOCKADE_MARIADB_NEW_DATA, "-", std::hash<std::string>()(version.out));
  if (fs::exists(data)) return data;
  const TempDir dir;
  MustRun(WithUser({"mariadb-install-db", "--no-defaults", "--datadir=" + dir.File("data"), TemporaryFiles(dir),
                    "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
                    "--innodb-log-file-size=8M", kNoSync}));
  const fs::path part = Concat(data.string(), ".", getpid());
  fs::remove_all(part);  // Of a program that was killed.
  fs::copy(dir.File("data"), part, fs::copy_options::recursive);
  std::error_code kept;
  fs::rename(part, data, kept);
  if (kept) fs::remove_all(part);
  return data;
}

}  // namespace

MariaDbServer::MariaDbServer(MariaDbServerOptions options) : options_(std::move(options)) {
  Install();
  if (options_.tls) {
    authority_ = std::make_unique<CertificateAuthority>();
    certificate_ = authority_->Issue(options_.names, options_.days);
  }
  const NetworkHost::Scope there = options_.host.Enter();
  for (int attempt = 0; attempt < 10; ++attempt) {
    port_ = FreePort();
    if (Start()) return;
  }
  Fatal(Concat("no port for mariadbd: ", log()));
}

void MariaDbServer::Install() const {
  std::filesystem::copy(NewData(), dir_.File("data"), std::filesystem::copy_options::recursive);
  std::ofstream init(dir_.File("init.sql"));
  init << "CREATE DATABASE IF NOT EXISTS test;\n";
  // Its clients come from hosts of one network.
  const char* const from = OnLoopback() ? "'127.0.0.1'" : "'%'";
  for (const char* const host : {from, "localhost"}) {
    init << "CREATE USER IF NOT EXISTS stockade@" << host << " IDENTIFIED BY 'secret';\n"
         << "GRANT ALL ON test.* TO stockade@" << host << ";\n";
  }
}

// False: another program has the port.
bool MariaDbServer::Start() {
  std::vector<std::string> argv =
      WithUser({ServerProgram(), "--no-defaults", "--datadir=" + dir_.File("data"), TemporaryFiles(dir_),
                "--socket=" + unix_socket(), "--pid-file=" + dir_.File("pid"), Concat("--port=", port_),
                "--bind-address=" + options_.host.address(), "--init-file=" + dir_.File("init.sql"), "--skip-log-bin",
                "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=16M",
                "--innodb-log-file-size=8M"});
  if (options_.tls) {
    argv.insert(argv.end(), {"--ssl-ca=" + ca_file(), "--ssl-cert=" + certificate_.cert_file,
                             "--ssl-key=" + certificate_.key_file});
  }
  argv.insert(argv.end(), options_.flags.begin(), options_.flags.end());
  if (!options_.environment.empty()) {
    argv.insert(argv.begin(), options_.environment.begin(), options_.environment.end());
    argv.insert(argv.begin(), "env");
  }
  if (process_.Start(argv, "mariadbd", [&] { return TryQuery("SELECT 1").has_value(); })) return true;
  if (log().find("ddress already in use") == std::string::npos) Fatal(Concat("mariadbd: ", log()));
  return false;
}

bool MariaDbServer::OnLoopback() const { return options_.host.address() == NetworkHost().address(); }

std::string MariaDbServer::url() const {
  if (OnLoopback()) return UrlOf(port_);
  return Concat("mysql://stockade:secret@", options_.host.address(), ":", port_, "/test?tls=off");
}

std::string MariaDbServer::UrlOf(uint16_t port) { return Concat("mysql://stockade:secret@127.0.0.1:", port, "/test"); }

MariaDbServer::Answer MariaDbServer::Ask(const std::string& sql) const {
  const std::unique_ptr<MYSQL, decltype(&mysql_close)> connection(mysql_init(nullptr), &mysql_close);
  constexpr unsigned kLimitS = 20;
  mysql_options(connection.get(), MYSQL_OPT_CONNECT_TIMEOUT, &kLimitS);
  mysql_options(connection.get(), MYSQL_OPT_READ_TIMEOUT, &kLimitS);
  if (mysql_real_connect(connection.get(), nullptr, "root", "", nullptr, 0, unix_socket().c_str(), 0) == nullptr ||
      mysql_real_query(connection.get(), sql.data(), sql.size()) != 0) {
    return {.error = mysql_error(connection.get()), .error_code = mysql_errno(connection.get())};
  }
  Answer answer;
  const std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> result(mysql_store_result(connection.get()),
                                                                        &mysql_free_result);
  if (result == nullptr) return answer;
  const unsigned columns = mysql_num_fields(result.get());
  answer.rows.reserve(mysql_num_rows(result.get()));
  while (MYSQL_ROW row = mysql_fetch_row(result.get())) {
    std::vector<std::string> values;
    values.reserve(columns);
    for (unsigned i = 0; i < columns; ++i) values.emplace_back(row[i] == nullptr ? "NULL" : row[i]);
    answer.rows.push_back(std::move(values));
  }
  return answer;
}

std::optional<SqlRows> MariaDbServer::TryQuery(const std::string& sql) const {
  Answer answer = Ask(sql);
  if (!answer.error.empty()) return std::nullopt;
  return std::move(answer.rows);
}

SqlRows MariaDbServer::Query(const std::string& sql) const {
  Answer answer = Ask(sql);
  // The server ends one of the transactions that wait for each other, and nothing of it is done.
  while (answer.error_code == ER_LOCK_DEADLOCK) answer = Ask(sql);
  if (!answer.error.empty()) Fatal(Concat(sql, ": ", answer.error));
  return std::move(answer.rows);
}

std::string MariaDbServer::Value(const std::string& sql) const {
  const SqlRows rows = Query(sql);
  if (rows.size() != 1 || rows[0].size() != 1) Fatal(Concat(sql, ": ", rows.size(), " rows"));
  return rows[0][0];
}

void MariaDbServer::KillConnections() const {
  for (const auto& row : Query("SELECT id FROM information_schema.processlist WHERE user = 'stockade'")) {
    (void)TryQuery("KILL CONNECTION " + row[0]);  // It may have ended by itself.
  }
}

void MariaDbServer::Empty() const {
  for (const auto& row : Query("SHOW TABLES FROM test")) Query("DELETE FROM test.`" + row[0] + "`");
}

void MariaDbServer::Wipe() const {
  for (const auto& row : Query("SHOW TABLES FROM test")) Query("DROP TABLE test.`" + row[0] + "`");
}

void MariaDbServer::Restart() {
  const NetworkHost::Scope there = options_.host.Enter();
  Stop();
  if (!Start()) Fatal(Concat("port ", port_, " was taken while mariadbd was down"));
}

}  // namespace stockade::testing
