#ifndef STOCKADE_TESTS_MYSQL_SUPPORT_MYSQL_MANGLER_H_
#define STOCKADE_TESTS_MYSQL_SUPPORT_MYSQL_MANGLER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/tcp_proxy.h"

namespace stockade::testing {

// What the filters of all connections share. Thread-safe.
struct MySqlMangling {
  std::atomic<uint64_t> seed{1};        // Of the next connection.
  std::atomic<int> per_mille{0};        // Of the results that are changed.
  std::atomic<int> login_per_mille{0};  // Of the packets of the login that are changed.
  std::atomic<uint64_t> changed{0};     // So far.
};

// Makes a server lie: what MariaDB sends arrives with results that are missing, twice, without rows or with errors
// instead; with columns too few and too many, NULL and other values in their places, and with packets that are cut,
// damaged, or not sent any more. The packets are numbered as a server would number them, so that the client takes them
// for an answer. For one connection that uses the text protocol without CLIENT_DEPRECATE_EOF. The seed decides.
class MySqlMangler {
 public:
  explicit MySqlMangler(MySqlMangling& shared) : shared_(shared), random_(shared.seed.fetch_add(1)) {}

  std::string operator()(std::string_view from_server);

 private:
  using Cells = std::vector<std::string>;  // As on the wire, with their lengths.
  // One result: OK or ERR, or the columns and rows of a SELECT. Ends with the status flags.
  struct Result {
    std::vector<std::string> columns = {};
    std::vector<Cells> rows = {};
    std::string plain = {};  // Without rows: the whole packet.
    uint16_t flags = 0;
  };
  enum class Expects { kGreeting, kLogin, kResult, kColumn, kColumnsEnd, kRow };

  bool Chance(int per_mille) { return static_cast<int>(random_() % 1000) < per_mille; }
  void Take(const std::string& payload, uint8_t number);
  void TakeOfResult(const std::string& payload);
  void EndResult();
  void Mangle(Result& result);
  void MangleRows(Result& result);
  std::string OtherCell();
  void Send(const Result& result);
  void SendPacket(std::string payload);
  std::string Damaged(std::string payload);

  MySqlMangling& shared_;
  std::mt19937_64 random_;
  std::string arrived_;
  std::string out_;
  Expects expects_ = Expects::kGreeting;
  uint64_t columns_left_ = 0;
  Result result_;
  uint8_t next_number_ = 0;
  bool silent_ = false;
};

// Lets a proxy's server lie.
inline void Mangle(TcpProxy& proxy, MySqlMangling& shared) {
  proxy.FilterReplies([&shared] {
    return TcpProxy::Filter(
        [mangler = std::make_shared<MySqlMangler>(shared)](const std::string& bytes) { return (*mangler)(bytes); });
  });
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_MYSQL_SUPPORT_MYSQL_MANGLER_H_
