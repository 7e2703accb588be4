// What a server gets of the password that asks for it.
#include "mysql_login.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_connection.h"

namespace stockade::mysql_internal {
namespace {

using base_internal::Concat;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kScramble = "abcdefghijklmnopqrst";

std::string Packet(int number, std::string_view payload) {
  std::string packet;
  for (const size_t shift : {0, 8, 16}) packet.push_back(static_cast<char>(payload.size() >> shift & 0xff));
  packet.push_back(static_cast<char>(number));
  return packet.append(payload);
}

// What a server says that it can: bits of the upper half, and of the lower one.
constexpr uint16_t kPlugins = 0x0008;  // CLIENT_PLUGIN_AUTH.
constexpr uint16_t kTls = 0x0800;      // CLIENT_SSL.
constexpr uint16_t kBasics = 0x820b;   // The protocol of 4.1, a database and passwords.

std::string Half(uint16_t half) { return {static_cast<char>(half & 0xff), static_cast<char>(half >> 8)}; }

// As MariaDB begins.
std::string Greeting(std::string_view plugin, uint16_t lower = kBasics, uint16_t upper = 0x31 | kPlugins) {
  using std::string_literals::operator""s;
  std::string greeting =
      "\x0a"
      "5.5.5-10.11.0-MariaDB\0"s +
      "\1\0\0\0"s;
  greeting.append(kScramble.substr(0, 8)).append("\0"s);
  greeting += Half(lower) + "\x2d\x02\0"s + Half(upper);  // With the character set and the state between them.
  greeting += "\x15"s + std::string(10, '\0');
  greeting.append(kScramble.substr(8)).append("\0"s);
  return Packet(0, greeting.append(plugin).append("\0"s));
}

// A socket that listens on loopback, and its port.
std::pair<int, uint16_t> Listen() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return {listener, ntohs(address.sin_port)};
}

// Accepts one client, asks for the password by a plug-in, and then by another unless that is empty.
class AskingServer {
 public:
  AskingServer(std::string_view plugin, std::string_view then) : AskingServer(Greeting(plugin), Asks(then)) {}
  // `answers` follow what the client sends, one after another.
  AskingServer(std::string greeting, std::vector<std::string> answers)
      : greeting_(std::move(greeting)), answers_(std::move(answers)) {
    std::tie(listener_, port_) = Listen();
    thread_ = std::jthread([this] { Serve(); });
  }

  uint16_t port() const { return port_; }
  // All that the client has sent, once it has gone.
  std::string Received() {
    thread_.join();
    close(listener_);
    return received_;
  }

  // The last thing that the client has sent.
  std::string last() const { return last_; }

 private:
  static std::vector<std::string> Asks(std::string_view plugin) {
    using std::string_literals::operator""s;
    if (plugin.empty()) return {};
    return {Packet(2, "\xfe"s.append(plugin).append("\0"s).append(kScramble).append("\0"s))};
  }

  void Serve() {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_EQ(write(client, greeting_.data(), greeting_.size()), static_cast<ssize_t>(greeting_.size()));
    std::array<char, 4096> buffer;
    auto answer = answers_.begin();
    for (ssize_t got; (got = read(client, buffer.data(), buffer.size())) > 0;) {
      last_.assign(buffer.data(), static_cast<size_t>(got));
      received_ += last_;
      if (answer != answers_.end()) {
        EXPECT_EQ(write(client, answer->data(), answer->size()), static_cast<ssize_t>(answer->size()));
        ++answer;
      }
      if (answer == answers_.end()) shutdown(client, SHUT_WR);
    }
    close(client);
  }

  const std::string greeting_;
  const std::vector<std::string> answers_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::string received_;
  std::string last_;
  std::jthread thread_;
};

MySqlTarget TargetOf(const AskingServer& server, MySqlTls tls) {
  return {.host = "127.0.0.1",
          .port = server.port(),
          .username = "somebody",
          .password = "s3cretpassword",
          .database = "d",
          .tls = tls,
          .connect_timeout = absl::Seconds(30)};
}

TEST(MySqlLoginTest, ServerAsksForThePassword_GetsNothingOfIt) {
  struct Case {
    const char* plugin;
    const char* then;
  };
  for (const auto& [plugin, then] :
       {Case{"mysql_native_password", "mysql_clear_password"}, Case{"mysql_native_password", "dialog"},
        Case{"mysql_native_password", "mysql_old_password"}, Case{"mysql_native_password", "caching_sha2_password"},
        Case{"mysql_native_password", "sha256_password"}, Case{"mysql_clear_password", ""}, Case{"dialog", ""},
        Case{"mysql_old_password", ""}}) {
    SCOPED_TRACE(std::string(plugin) + " " + then);
    AskingServer server(plugin, then);
    const auto opened = MySqlConnection::Open(TargetOf(server, MySqlTls::kOff), -1);
    EXPECT_FALSE(opened.ok());
    EXPECT_THAT(server.Received(), Not(HasSubstr("s3cretpassword")));
    if (*then == '\0' || std::string_view(then) == "sha256_password") continue;
    EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
    EXPECT_EQ(std::string(opened.status().message()),
              Concat("MySQL at 127.0.0.1:", server.port(),
                     ": the server asks for the password by a plug-in that may reveal it; auth_plugin in the URL "
                     "allows one, with tls=verify or a socket"));
  }
}

TEST(MySqlLoginTest, TlsIsRequiredAndTheServerHasNone_NothingIsSent) {
  for (const char* plugin : {"mysql_native_password", "mysql_clear_password", "stockade_tls_first", ""}) {
    // Without plug-ins, the connector logs in as to MySQL 4.1, and without the protocol of that, as to older ones.
    for (const uint16_t upper : {uint16_t{0x31 | kPlugins}, uint16_t{0x31}}) {
      for (const uint16_t lower : {kBasics, uint16_t{0x800a}, uint16_t{0}}) {
        for (const MySqlTls tls : {MySqlTls::kRequired, MySqlTls::kVerify}) {
          SCOPED_TRACE(Concat(plugin, " ", upper, " ", lower, " ", static_cast<int>(tls)));
          AskingServer server(Greeting(plugin, lower, upper), {});
          const auto opened = MySqlConnection::Open(TargetOf(server, tls), -1);
          EXPECT_FALSE(opened.ok());
          EXPECT_EQ(server.Received(), "");
          if (tls == MySqlTls::kRequired && upper == (0x31 | kPlugins) && lower == kBasics) {
            EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
            EXPECT_THAT(std::string(opened.status().message()), HasSubstr("the server does not support TLS"));
          }
        }
      }
    }
  }
}

TEST(MySqlLoginTest, TlsIsRequiredAndTheServerHasIt_OnlyTheBeginningOfTlsIsInClear) {
  AskingServer server(Greeting("mysql_native_password", kBasics | kTls), {"what no server sends in a handshake"});
  const auto opened = MySqlConnection::Open(TargetOf(server, MySqlTls::kRequired), -1);
  EXPECT_TRUE(absl::IsUnavailable(opened.status())) << opened.status();
  const std::string received = server.Received();
  EXPECT_THAT(received, Not(HasSubstr("somebody")));
  EXPECT_THAT(received, Not(HasSubstr("stockade")));
  // A request for TLS has 32 bytes and a head of 4. A record of TLS follows.
  ASSERT_GT(received.size(), 36U);
  EXPECT_EQ(received[36], '\x16');
}

// Sends the same packet for ever, as fast as it can, after a greeting, or after the login.
class FloodingServer {
 public:
  FloodingServer(bool after_login, std::string packet) : after_login_(after_login), packet_(std::move(packet)) {
    std::tie(listener_, port_) = Listen();
    thread_ = std::jthread([this] { Serve(); });
  }
  ~FloodingServer() {
    shutdown(listener_, SHUT_RDWR);
    shutdown(client_, SHUT_RDWR);  // It may be waiting for a client that reads no more.
    thread_.join();
    close(client_);
    close(listener_);
  }
  uint16_t port() const { return port_; }

 private:
  void Serve() {
    using std::string_literals::operator""s;
    client_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    std::array<char, 4096> buffer;
    const auto send_all = [&](const std::string& bytes) {
      return send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
    };
    send_all(Greeting("mysql_native_password"));
    (void)read(client_, buffer.data(), buffer.size());
    if (after_login_) {
      send_all(Packet(2, "\0\0\0\2\0\0\0"s));
      (void)read(client_, buffer.data(), buffer.size());
    }
    // Numbered as an answer is.
    std::string flood;
    for (int number = after_login_ ? 1 : 2; flood.size() < (size_t{1} << 20); ++number)
      flood += Packet(number & 0xff, packet_);
    while (flood.size() % (256 * (packet_.size() + 4)) != 0) flood.resize(flood.size() - packet_.size() - 4);
    while (send_all(flood)) {
    }
  }

  const bool after_login_;
  const std::string packet_;
  int listener_ = -1;
  std::atomic<int> client_ = -1;
  uint16_t port_ = 0;
  std::jthread thread_;
};

TEST(MySqlLoginTest, ServerFloods_TheDeadlineHolds) {
  using std::string_literals::operator""s;
  const struct {
    const char* what;
    bool after_login;
    std::string packet;
  } floods[] = {
      {"asks for the password again and again", false,
       "\xfe"s + "mysql_native_password\0"s + std::string(kScramble) + "\0"s},
      {"reports progress", true, "\xff\xff\xff\1\1\2\0\0\0\1x"s},
      {"describes columns", true, "\3def\1d\1t\1t\1c\1c\x0c\x3f\0\1\0\0\0\3\0\0\0\0\0"s},
      {"sends rows", true, "\1x"s},
  };
  for (const auto& flood : floods) {
    SCOPED_TRACE(flood.what);
    FloodingServer server(flood.after_login, flood.packet);
    const Instant start = Clock::System()->Now();
    const auto opened = MySqlConnection::Open({.host = "127.0.0.1",
                                               .port = server.port(),
                                               .username = "somebody",
                                               .password = "s3cretpassword",
                                               .database = "d",
                                               .connect_timeout = absl::Seconds(1)},
                                              -1);
    EXPECT_TRUE(absl::IsUnavailable(opened.status())) << opened.status();
    EXPECT_LT(Clock::System()->Now() - start, absl::Seconds(20));  // It was some 40 s before.
  }
}

// The connector would take what has arrived with the greeting for something that came by TLS.
TEST(MySqlLoginTest, MoreThanAGreetingComesBeforeTls_NothingIsSent) {
  using std::string_literals::operator""s;
  const std::string ok = Packet(2, "\0\0\0\2\0\0\0"s);
  for (const MySqlTls tls : {MySqlTls::kRequired, MySqlTls::kVerify}) {
    for (const size_t more : {size_t{1}, ok.size(), 3 * ok.size()}) {
      AskingServer server(Greeting("mysql_native_password", kBasics | kTls) + (ok + ok + ok).substr(0, more), {});
      const auto opened = MySqlConnection::Open(TargetOf(server, tls), -1);
      EXPECT_TRUE(absl::IsUnavailable(opened.status())) << opened.status();
      EXPECT_EQ(server.Received(), "");
    }
  }
}

// The connector does not know yet whose protocol it is, and ended the process.
TEST(MySqlLoginTest, ReportOfProgressInPlaceOfAGreeting_IsAnError) {
  using std::string_literals::operator""s;
  for (const MySqlTls tls : {MySqlTls::kOff, MySqlTls::kRequired, MySqlTls::kVerify}) {
    AskingServer server(Packet(0, "\xff\xff\xff\1\1\1\0\0\0\1x"s), {});
    EXPECT_FALSE(MySqlConnection::Open(TargetOf(server, tls), -1).ok());
    EXPECT_EQ(server.Received(), "");
  }
}

// Begins with a record of TLS, of which a byte comes now and then.
TEST(MySqlLoginTest, ServerDripsInTheHandshake_TheDeadlineHolds) {
  using std::string_literals::operator""s;
  const auto [listener, port] = Listen();
  std::jthread dripping([listener = listener] {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const std::string greets = Greeting("mysql_native_password", kBasics | kTls);
    EXPECT_EQ(write(client, greets.data(), greets.size()), static_cast<ssize_t>(greets.size()));
    std::string record = "\x16\3\3\x40\0"s + std::string(600, 'x');
    std::array<char, 4096> buffer;
    // A minute, unless the client goes.
    for (const char byte : record) {
      pollfd fd = {.fd = client, .events = POLLIN | POLLRDHUP, .revents = 0};
      if (poll(&fd, 1, 100) > 0 && read(client, buffer.data(), buffer.size()) <= 0) break;
      if (send(client, &byte, 1, MSG_NOSIGNAL) != 1) break;
    }
    close(client);
  });
  const Instant start = Clock::System()->Now();
  const auto opened = MySqlConnection::Open({.host = "127.0.0.1",
                                             .port = port,
                                             .username = "somebody",
                                             .password = "s3cretpassword",
                                             .database = "d",
                                             .tls = MySqlTls::kVerify,
                                             .connect_timeout = absl::Seconds(1)},
                                            -1);
  EXPECT_TRUE(absl::IsUnavailable(opened.status())) << opened.status();
  EXPECT_LT(Clock::System()->Now() - start, absl::Seconds(30));
  dripping.join();
  close(listener);
}

TEST(MySqlLoginTest, ConnectorThatDoesNotVerify_IsRefusedForTlsVerify) {
  for (const size_t version : {30'301, 30'399, 101'119, 110'399}) {
    EXPECT_TRUE(CheckConnector(MySqlTls::kVerify, version).ok()) << version;
  }
  for (const size_t version : {30'400, 40'000, 110'400, 120'000}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(CheckConnector(MySqlTls::kVerify, version))) << version;
    EXPECT_TRUE(CheckConnector(MySqlTls::kRequired, version).ok()) << version;
    EXPECT_TRUE(CheckConnector(MySqlTls::kOff, version).ok()) << version;
  }
}

}  // namespace
}  // namespace stockade::mysql_internal
