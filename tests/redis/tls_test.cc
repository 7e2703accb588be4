// A client of real servers with TLS: what is refused, and that everything that connects uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "docs/document_table.h"
#include "redis/support/connect_to.h"
#include "redis/support/ear.h"
#include "redis/support/raw_peer.h"
#include "redis/support/redis_cluster.h"
#include "redis/support/redis_server.h"
#include "redis/support/sentinel_set.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "stockade/redis/redis_script.h"
#include "support/await.h"
#include "support/certificates.h"
#include "support/subprocess.h"
#include "support/temp_dir.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Certificate;
using testing::CertificateAuthority;
using testing::ConnectTo;
using ::testing::HasSubstr;
using testing::RedisServer;
using testing::RedisServerTls;

class RedisTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    STOCKADE_NEEDS_OPENSSL();
    authority_ = std::make_unique<CertificateAuthority>();
    other_ = std::make_unique<CertificateAuthority>("another CA");
  }

  // A server with this certificate, signed by authority_.
  std::unique_ptr<RedisServer> Server(const Certificate& certificate, std::vector<std::string> config = {}) {
    return std::make_unique<RedisServer>(
        testing::RedisServerOptions{.tls = RedisServerTls{.ca_file = authority_->ca_file(), .certificate = certificate},
                                    .config = std::move(config)});
  }
  std::unique_ptr<RedisServer> Server() { return Server(authority_->Issue()); }

  static std::string Url(const RedisServer& server) { return "rediss://" + server.Host(); }
  RedisTlsOptions Trusting() const { return {.ca_file = authority_->ca_file()}; }

  std::unique_ptr<CertificateAuthority> authority_;
  std::unique_ptr<CertificateAuthority> other_;
};

// Every row of the README's table is made here, and has the status and the words that the client has.
TEST_F(RedisTlsTest, TableOfErrors_IsWhatConnectReturns) {
  const auto server = Server();
  const RedisTlsOptions trusting = Trusting();
  const testing::TempDir dir;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(dir.File(name)) << text;
    return dir.File(name);
  };
  const auto connect = [](const std::string& url, RedisTlsOptions tls) {
    absl::Status status =
        RedisClient::Connect(url, {.connect_timeout = absl::Seconds(20), .tls = std::move(tls)}).status();
    return status;
  };
  const auto with_key = [&](const std::string& cert_file, const std::string& key_file) {
    RedisTlsOptions tls = Trusting();
    tls.cert_file = cert_file;
    tls.key_file = key_file;
    return tls;
  };
  const Certificate mine = authority_->Issue();
  const auto demanding = std::make_unique<RedisServer>(testing::RedisServerOptions{
      .tls = RedisServerTls{
          .ca_file = authority_->ca_file(), .certificate = authority_->Issue(), .requires_certificates = true}});

  const std::pair<std::string, std::function<absl::Status()>> made[] = {
      {"another CA has signed the server's certificate",
       [&] { return connect(Url(*server), {.ca_file = other_->ca_file()}); }},
      {"the server's certificate has expired",
       [&] { return connect(Url(*Server(authority_->Issue("IP:127.0.0.1", -1))), trusting); }},
      {"the server's certificate is for another name",
       [&] {
         return connect(Concat("rediss://localhost:", Server(authority_->Issue("DNS:example.com"))->port()), trusting);
       }},
      {"the server's certificate is for another address",
       [&] { return connect(Url(*Server(authority_->Issue("IP:10.0.0.7"))), trusting); }},
      {"the server requires a certificate of the client, and none is set",
       [&] { return connect(Url(*demanding), trusting); }},
      {"the server does not accept the client's certificate",
       [&] {
         const Certificate foreign = other_->Issue();
         return connect(Url(*demanding), with_key(foreign.cert_file, foreign.key_file));
       }},
      {"a Redis server without TLS, and a URL with TLS",
       [&] {
         const RedisServer plain;
         return RedisClient::Connect(Url(plain), {.connect_timeout = absl::Milliseconds(500), .tls = trusting})
             .status();
       }},
      {"another server without TLS, and a URL with TLS",
       [&] {
         testing::RawPeer web([](size_t, const std::string&) { return ""; });
         std::jthread answers([&](const std::stop_token& stop) {
           for (size_t next = 0; !stop.stop_requested(); poll(nullptr, 0, 1)) {
             if (web.connections() > next) (void)web.SendTo(next++, "HTTP/1.1 400 Bad Request\r\n\r\n");
           }
         });
         return connect(Concat("rediss://127.0.0.1:", web.port()), trusting);
       }},
      {"a server with TLS, and a URL without TLS", [&] { return connect("redis://" + server->Host(), {}); }},
      {"the two have no version or cipher of TLS in common",
       [&] {
         return connect(
             Url(*Server(authority_->Issue(), {"tls-protocols \"TLSv1.2\"", "tls-ciphers DHE-RSA-AES128-SHA"})),
             trusting);
       }},
      {"a file is missing or cannot be read", [&] { return connect(Url(*server), {.ca_file = dir.File("none.pem")}); }},
      {"a file has no certificate", [&] { return connect(Url(*server), {.ca_file = file("text.pem", "text")}); }},
      {"the key is not that of the certificate",
       [&] { return connect(Url(*server), with_key(mine.cert_file, authority_->Issue().key_file)); }},
      {"the key is encrypted",
       [&] {
         const std::string key_file = dir.File("encrypted.pem");
         EXPECT_EQ(testing::RunToEnd({"openssl", "pkey", "-in", mine.key_file, "-aes256", "-passout", "pass:secret",
                                      "-out", key_file})
                       .status,
                   0);
         return connect(Url(*server), with_key(mine.cert_file, key_file));
       }},
      {"a field of `RedisOptions::tls` is set, and the URL is one without TLS",
       [&] { return connect("redis://" + server->Host(), trusting); }},
  };

  std::vector<std::string> documented = testing::DocumentedTable("redis/README.md", "| what goes wrong |");
  ASSERT_EQ(documented.size(), std::size(made) + 2);
  documented.erase(documented.begin(), documented.begin() + 2);  // The head, and the line below it.
  for (size_t i = 0; i < documented.size(); ++i) {
    const absl::Status status = made[i].second();
    const std::string told = Concat("| ", made[i].first, " | ", absl::StatusCodeToString(status.code()), " | `");
    EXPECT_TRUE(documented[i].starts_with(told)) << documented[i] << "\nbut it is\n" << told << "\n" << status;
    const std::string words = documented[i].substr(std::min(told.size(), documented[i].size()));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words.substr(0, words.find('`')))) << made[i].first;
  }
}

// An alert and the end of a connection may arrive in any order with what the client sends.
TEST_F(RedisTlsTest, CertificateRequired_IsTheReasonEachTime) {
  for (const char* const protocol : {"TLSv1.2", "TLSv1.3"}) {
    const RedisServer server({.tls = RedisServerTls{.ca_file = authority_->ca_file(),
                                                    .certificate = authority_->Issue(),
                                                    .requires_certificates = true},
                              .config = {Concat("tls-protocols \"", protocol, "\"")}});
    for (int i = 0; i < 50; ++i) {
      const absl::Status status =
          RedisClient::Connect(Url(server), {.connect_timeout = absl::Seconds(20), .tls = Trusting()}).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << protocol << ": " << status;
    }
    EXPECT_TRUE(ConnectTo(server.url())->Run(RedisCommand("PING")).ok());
  }
}

TEST_F(RedisTlsTest, Names_AreCheckedAgainstTheCertificate) {
  const auto named = Server(authority_->Issue("DNS:*.example.com"));
  const auto code = [&](const std::string& url) {
    return RedisClient::Connect(url, {.connect_timeout = absl::Seconds(20), .tls = Trusting()}).status().code();
  };
  const std::string host = Url(*named);
  EXPECT_EQ(code(host), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(host + "?tls_server_name=cache.example.com"), absl::StatusCode::kOk);
  EXPECT_EQ(code(host + "?tls_server_name=example.com"), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(host + "?tls_verify=chain"), absl::StatusCode::kOk);
  EXPECT_EQ(code(host + "?tls_verify=none"), absl::StatusCode::kOk);
  EXPECT_EQ(code(Concat("rediss://localhost:", named->port())), absl::StatusCode::kUnauthenticated);

  const auto local = Server();
  EXPECT_EQ(code(Concat("rediss://localhost:", local->port())), absl::StatusCode::kOk);

  // Without the name, the CA still counts; with neither, nothing does.
  const auto foreign = Server(other_->Issue());
  EXPECT_EQ(code(Url(*foreign) + "?tls_verify=chain"), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(Url(*foreign) + "?tls_verify=none"), absl::StatusCode::kOk);
  // The system does not trust a CA of a test.
  const absl::Status of_system = RedisClient::Connect(Url(*local), {.connect_timeout = absl::Seconds(20)}).status();
  EXPECT_EQ(of_system.code(), absl::StatusCode::kUnauthenticated) << of_system;
  EXPECT_THAT(std::string(of_system.message()), HasSubstr("self-signed certificate in certificate chain"));
}

TEST_F(RedisTlsTest, ParametersOfTheUrl_TakePrecedenceOverTheOptions) {
  const auto server = Server();
  const std::string url = Url(*server) + "?tls_ca=" + authority_->ca_file();
  EXPECT_TRUE(ConnectTo(url, {.tls = {.ca_file = other_->ca_file()}})->Run(RedisCommand("PING")).ok());
}

TEST_F(RedisTlsTest, VersionsOfTls_AreTwelveAndThirteen) {
  for (const char* const protocol : {"TLSv1.2", "TLSv1.3"}) {
    const auto server = Server(authority_->Issue(), {Concat("tls-protocols \"", protocol, "\"")});
    const auto redis = ConnectTo(server->url());
    ASSERT_NE(redis, nullptr);
    const std::string large(3'000'000, 'x');
    EXPECT_EQ(redis->Run(RedisCommand("ECHO").Arg(large)).value().text(), large);
    testing::Ear ear;
    const RedisSubscription subscription = redis->Subscribe("channel", ear.subscriber()).value();
    ASSERT_TRUE(subscription.AwaitSubscribed(absl::Seconds(30)).ok());
    EXPECT_TRUE(redis->Run(RedisCommand("PUBLISH").Arg("channel").Arg(large)).ok());
    EXPECT_TRUE(ear.AwaitMessage(large));
    // The only client at the port for those without TLS is the one that asks.
    const std::string clients = server->Call({"CLIENT", "LIST"}).text;
    const auto count = [&](uint16_t port) {
      return std::vector<std::string>(absl::StrSplit(clients, Concat("laddr=127.0.0.1:", port, " "))).size() - 1;
    };
    EXPECT_EQ(count(server->plain_port()), 1) << clients;
    EXPECT_EQ(count(server->port()), 2) << clients;
  }
}

// A server that loses its certificate while the client is connected is not believed any more when it comes back.
TEST_F(RedisTlsTest, ServerThatComesBackWithAForeignCertificate_IsRefused) {
  const Certificate own = authority_->Issue();
  const Certificate foreign = other_->Issue();
  const testing::TempDir dir;
  const Certificate used = {.cert_file = dir.File("cert.pem"), .key_file = dir.File("key.pem")};
  const auto use = [&](const Certificate& certificate) {
    constexpr auto kOver = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(certificate.cert_file, used.cert_file, kOver);
    std::filesystem::copy_file(certificate.key_file, used.key_file, kOver);
  };
  use(own);
  const auto server = Server(used);
  const auto redis = ConnectTo(server->url(), {.max_backoff = absl::Milliseconds(50)});
  ASSERT_NE(redis, nullptr);
  ASSERT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg("v")).ok());
  use(foreign);
  server->Restart();
  testing::Await("the client to refuse the certificate", [&] {
    const absl::Status status = redis->Run(RedisCommand("GET").Key("k"), {.timeout = absl::Seconds(1)}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    return status.message().find("the certificate of the server is refused") != std::string::npos;
  });
  use(own);
  server->Restart();
  EXPECT_TRUE(redis->Run(RedisCommand("SET").Key("k").Arg("v"), {.timeout = absl::Minutes(1)}).ok());
}

// A client's certificate is renewed before it expires, and the client stays.
TEST_F(RedisTlsTest, FilesThatChange_AreReadForTheNextConnection) {
  const RedisServer server(
      {.tls = RedisServerTls{
           .ca_file = authority_->ca_file(), .certificate = authority_->Issue(), .requires_certificates = true}});
  const testing::TempDir dir;
  RedisTlsOptions tls = Trusting();
  tls.cert_file = dir.File("cert.pem");
  tls.key_file = dir.File("key.pem");
  const auto write = [](const std::string& file, const std::string& from) {
    std::filesystem::copy_file(from, file + ".new");
    std::filesystem::rename(file + ".new", file);
  };
  const Certificate first = authority_->Issue();
  write(tls.cert_file, first.cert_file);
  write(tls.key_file, first.key_file);
  const auto redis = ConnectTo(Url(server), {.max_backoff = absl::Milliseconds(50), .tls = tls});
  ASSERT_NE(redis, nullptr);
  const auto get = [&](absl::Duration timeout) {
    server.KillConnections();
    return redis->Run(RedisCommand("GET").Key("k").Idempotent(), {.timeout = timeout}).status();
  };
  EXPECT_EQ(get(absl::Minutes(1)), absl::OkStatus());

  // Half of the next pair, or a file that is empty: the first pair still counts.
  const Certificate foreign = other_->Issue();
  write(tls.cert_file, foreign.cert_file);
  EXPECT_EQ(get(absl::Minutes(1)), absl::OkStatus());
  std::ofstream(tls.key_file, std::ios::trunc).close();
  EXPECT_EQ(get(absl::Minutes(1)), absl::OkStatus());

  // A whole one is used at once: a session by the first one is not resumed. The server does not accept it.
  write(tls.key_file, foreign.key_file);
  testing::Await("the server to refuse the certificate", [&] {
    const absl::Status refused = get(absl::Seconds(1));
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
    return refused.message().find("the server refuses the certificate of the client") != std::string::npos;
  });

  const Certificate second = authority_->Issue();
  write(tls.cert_file, second.cert_file);
  write(tls.key_file, second.key_file);
  EXPECT_EQ(get(absl::Minutes(1)), absl::OkStatus());
}

// A program that has used OpenSSL before this library cleans it up at exit, while threads are still at work.
TEST_F(RedisTlsTest, ScriptThatIsMadeAfterOpenSslHasCleanedUp_HasItsHash) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        OPENSSL_cleanup();
        const RedisScript script("return 1");
        _exit(script.sha1() == "e0e1f9fabfc9d4800c877a703b823ac0578ff8db" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

// Destroyed after OpenSSL would have cleaned up, which its first use registers.
std::unique_ptr<RedisClient> late_client;  // NOLINT

TEST_F(RedisTlsTest, ClientThatIsDestroyedAtTheEndOfTheProcess_EndsIt) {
  const auto server = Server();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        // Without a CA that it trusts, its thread is in one handshake after another.
        late_client = RedisClient::Connect(Url(*server), {.wait_for_connection = false,
                                                          .min_backoff = absl::Nanoseconds(1),
                                                          .max_backoff = absl::Nanoseconds(1)})
                          .value();
        (void)late_client->Run(RedisCommand("PING"), {.timeout = absl::Milliseconds(100)});
        exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(RedisTlsTest, SentinelsAndNodes_AreRefusedLikeServers) {
  const testing::SentinelSet sentinels({.server = {.tls = testing::TlsOf(*authority_)}});
  const auto code = [](const std::string& url, const std::string& ca_file) {
    return RedisClient::Connect(url, {.connect_timeout = absl::Seconds(20), .tls = {.ca_file = ca_file}}).status();
  };
  const auto without_query = [](const std::string& url) { return url.substr(0, url.find('?')); };
  const std::string at_sentinels = without_query(sentinels.url());
  EXPECT_TRUE(code(at_sentinels, authority_->ca_file()).ok());
  const absl::Status refused = code(at_sentinels, other_->ca_file());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the certificate of the server is refused"));

  const testing::RedisCluster cluster({.server = {.tls = testing::TlsOf(*authority_)}});
  const std::string at_nodes = without_query(cluster.url());
  EXPECT_TRUE(code(at_nodes, authority_->ca_file()).ok());
  const absl::Status by_nodes = code(at_nodes, other_->ca_file());
  EXPECT_EQ(by_nodes.code(), absl::StatusCode::kUnauthenticated) << by_nodes;
}

}  // namespace
}  // namespace stockade
