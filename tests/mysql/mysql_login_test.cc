// What a server gets of the password that asks for it.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>

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

// As MariaDB begins.
std::string Greeting(std::string_view plugin) {
  using std::string_literals::operator""s;
  std::string greeting =
      "\x0a"
      "5.5.5-10.11.0-MariaDB\0"s +
      "\1\0\0\0"s;
  greeting.append(kScramble.substr(0, 8)).append("\0"s);
  greeting +=
      "\x0b\x82\x2d\x02\0\x39\0"s;  // What it can, the lower half; the character set; the state; the upper half.
  greeting += "\x15"s + std::string(10, '\0');
  greeting.append(kScramble.substr(8)).append("\0"s);
  return Packet(0, greeting.append(plugin).append("\0"s));
}

// Accepts one client, asks for the password by a plug-in, and then by another unless that is empty.
class AskingServer {
 public:
  AskingServer(std::string_view plugin, std::string_view then) : greeting_(Greeting(plugin)) {
    using std::string_literals::operator""s;
    if (!then.empty()) switch_ = Packet(2, "\xfe"s.append(then).append("\0"s).append(kScramble).append("\0"s));
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { Serve(); });
  }

  uint16_t port() const { return port_; }
  // All that the client has sent, once it has gone.
  std::string Received() {
    thread_.join();
    close(listener_);
    return received_;
  }

 private:
  void Serve() {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_EQ(write(client, greeting_.data(), greeting_.size()), static_cast<ssize_t>(greeting_.size()));
    std::array<char, 4096> buffer;
    bool switched = switch_.empty();
    for (ssize_t got; (got = read(client, buffer.data(), buffer.size())) > 0;) {
      received_.append(buffer.data(), static_cast<size_t>(got));
      if (!switched) EXPECT_EQ(write(client, switch_.data(), switch_.size()), static_cast<ssize_t>(switch_.size()));
      switched = true;
      shutdown(client, SHUT_WR);
    }
    close(client);
  }

  const std::string greeting_;
  std::string switch_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::string received_;
  std::jthread thread_;
};

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
    const auto opened = MySqlConnection::Open({.host = "127.0.0.1",
                                               .port = server.port(),
                                               .username = "app",
                                               .password = "s3cretpassword",
                                               .database = "d",
                                               .connect_timeout = absl::Seconds(30)},
                                              -1);
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

}  // namespace
}  // namespace stockade::mysql_internal
