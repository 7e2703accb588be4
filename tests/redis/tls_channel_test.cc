// TLS on one connection: what no real server does on demand, by a peer that uses OpenSSL as a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "link.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "support/await.h"
#include "support/certificates.h"
#include "support/loopback.h"
#include "support/scale.h"
#include "support/temp_dir.h"
#include "tls.h"

namespace stockade::redis_internal {
namespace {

using testing::Certificate;
using testing::CertificateAuthority;
using ::testing::HasSubstr;

Instant Deadline() { return Clock::System()->Now() + absl::Minutes(1); }

// Listens on 127.0.0.1, and does with the connections of one test what that wants, one after another on a thread.
class TlsPeer {
 public:
  using Serve = std::function<void(SSL* ssl)>;

  // `version` is the only one of TLS that it speaks.
  TlsPeer(const Certificate& certificate, int version, Serve serve)
      : context_(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free), serve_(std::move(serve)) {
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context_.get(), certificate.cert_file.c_str()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), certificate.key_file.c_str(), SSL_FILETYPE_PEM), 1);
    for (int attempt = 0; attempt < 10 && listener_ < 0; ++attempt) {
      port_ = testing::FreePort();
      listener_ = testing::BoundSocket(port_);
    }
    EXPECT_EQ(listen(listener_, 16), 0);
    thread_ = std::thread([this] { Accept(); });
  }
  ~TlsPeer() {
    (void)shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  TlsPeer(const TlsPeer&) = delete;
  TlsPeer& operator=(const TlsPeer&) = delete;

  RedisEndpoint endpoint() const { return {.host = "127.0.0.1", .port = port_}; }

 private:
  void Accept() {
    for (;;) {
      pollfd ready{.fd = listener_, .events = POLLIN, .revents = 0};
      (void)poll(&ready, 1, -1);
      if ((ready.revents & POLLHUP) != 0) return;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context_.get()), &SSL_free);
      SSL_set_fd(ssl.get(), fd);
      if (SSL_accept(ssl.get()) == 1) serve_(ssl.get());
      close(fd);
    }
  }

  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  const Serve serve_;
  uint16_t port_ = 0;
  int listener_ = -1;
  std::thread thread_;
};

void Write(SSL* ssl, std::string_view bytes) {
  size_t written = 0;
  EXPECT_EQ(SSL_write_ex(ssl, bytes.data(), bytes.size(), &written), 1);
}

// Empty: the connection has ended.
std::string Read(SSL* ssl) {
  char buffer[16384];
  size_t got = 0;
  return SSL_read_ex(ssl, buffer, sizeof buffer, &got) == 1 ? std::string(buffer, got) : std::string();
}

// Blocks until the client has sent `end`. False: the connection has ended.
bool ReadUntil(SSL* ssl, std::string_view end) {
  std::string text;
  while (text.find(end) == std::string::npos) {
    const std::string more = Read(ssl);
    if (more.empty()) return false;
    text += more;
  }
  return true;
}

// The handshake of a Link, which is one PING.
void Introduce(SSL* ssl) {
  ASSERT_TRUE(ReadUntil(ssl, "PING\r\n"));
  Write(ssl, "+PONG\r\n");
}

void RequestKeyUpdate(SSL* ssl) {
  EXPECT_EQ(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
  EXPECT_EQ(SSL_do_handshake(ssl), 1);
}

bool IsReadable(const Link& link) {
  pollfd ready{.fd = link.fd(), .events = POLLIN, .revents = 0};
  return poll(&ready, 1, 60'000) == 1;
}

class TlsChannelTest : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { signal(SIGPIPE, SIG_IGN); }
  void SetUp() override {
    STOCKADE_NEEDS_OPENSSL();
    authority_ = std::make_unique<CertificateAuthority>();
    certificate_ = authority_->Issue();
    config_ = TlsConfig::Create({.ca_file = authority_->ca_file()}).value();
  }

  // What the peer does once the link is there.
  std::unique_ptr<TlsPeer> Peer(TlsPeer::Serve serve) {
    return std::make_unique<TlsPeer>(certificate_, GetParam(), [serve = std::move(serve)](SSL* ssl) {
      Introduce(ssl);
      serve(ssl);
    });
  }
  std::unique_ptr<Link> Connect(const TlsPeer& peer) const {
    absl::StatusOr<std::unique_ptr<Link>> link =
        Link::Connect(peer.endpoint(), {.tls = config_}, size_t{64} << 20, Deadline());
    EXPECT_TRUE(link.ok()) << link.status();
    return link.ok() ? *std::move(link) : nullptr;
  }

  std::unique_ptr<CertificateAuthority> authority_;
  Certificate certificate_;
  std::shared_ptr<TlsConfig> config_;
};

class Tls13ChannelTest : public TlsChannelTest {};

TEST_P(TlsChannelTest, LargeData_OfWhichTheSocketTakesParts_ArriveAsTheyAre) {
  std::string sent;
  for (int i = 0; sent.size() < 8'000'000; ++i) sent += std::to_string(i) + ' ';
  std::promise<void> blocked;
  const auto peer = Peer([&](SSL* ssl) {
    blocked.get_future().wait();
    std::string got;
    while (got.size() < sent.size()) {
      const std::string more = Read(ssl);
      ASSERT_FALSE(more.empty());
      got += more;
    }
    EXPECT_TRUE(got == sent);
    Write(ssl, "$" + std::to_string(got.size()) + "\r\n" + got + "\r\n");
    EXPECT_EQ(Read(ssl), "");
  });
  const auto link = Connect(*peer);
  bool was_full = false;
  for (std::string_view left = sent; !left.empty();) {
    const absl::StatusOr<size_t> taken = link->Send(left);
    ASSERT_TRUE(taken.ok()) << taken.status();
    left.remove_prefix(*taken);
    if (*taken > 0) continue;
    if (!std::exchange(was_full, true)) blocked.set_value();
    pollfd ready{.fd = link->fd(), .events = POLLOUT, .revents = 0};
    ASSERT_EQ(poll(&ready, 1, 60'000), 1);
  }
  EXPECT_TRUE(was_full) << "the socket took everything: the test tests nothing";
  RedisReply reply;
  for (absl::StatusOr<bool> whole = false; !*whole;) {
    ASSERT_TRUE(IsReadable(*link));
    ASSERT_TRUE(link->Receive().ok());
    whole = link->Next(reply);
    ASSERT_TRUE(whole.ok()) << whole.status();
  }
  EXPECT_TRUE(reply.text() == sent);
  EXPECT_TRUE(link->CheckNothingCame().ok());
}

// TSan shows whether the two threads are kept apart.
TEST_P(TlsChannelTest, OneThreadSends_WhileAnotherReceivesAndAThirdChecks) {
  const std::string block(100'000, 'x');
  const std::string wire = "$" + std::to_string(block.size()) + "\r\n" + block + "\r\n";
  const int64_t count = testing::Scaled(100, 2'000);
  const auto peer = Peer([&](SSL* ssl) {
    for (int i = 1;; ++i) {
      const std::string bytes = Read(ssl);
      if (bytes.empty()) return;
      Write(ssl, bytes);
      if (GetParam() == TLS1_3_VERSION && i % 50 == 0) RequestKeyUpdate(ssl);
    }
  });
  const auto link = Connect(*peer);
  std::thread sender([&] {
    for (int64_t i = 0; i < count; ++i) {
      for (std::string_view left = wire; !left.empty();) {
        const absl::StatusOr<size_t> taken = link->Send(left);
        ASSERT_TRUE(taken.ok()) << taken.status();
        left.remove_prefix(*taken);
        if (*taken > 0) continue;
        pollfd ready{.fd = link->fd(), .events = POLLOUT, .revents = 0};
        ASSERT_EQ(poll(&ready, 1, 60'000), 1);
      }
    }
  });
  std::thread watcher([&] {
    for (int64_t i = 0; i < count; ++i) EXPECT_TRUE(link->HasSome().ok());
  });
  RedisReply reply;
  for (int64_t got = 0; got < count;) {
    ASSERT_TRUE(IsReadable(*link));
    absl::StatusOr<bool> more = link->Receive();
    while (more.ok() && *more) {
      more = link->Next(reply);
      if (!more.ok() || !*more) break;
      ASSERT_TRUE(reply.text() == block);
      ++got;
    }
    ASSERT_TRUE(more.ok()) << more.status();
  }
  sender.join();
  watcher.join();
  EXPECT_TRUE(link->CheckNothingCame().ok());
}

TEST_P(TlsChannelTest, DataWhileNoneAreDue_OrAPartOfARecord_AreDataLoss) {
  const std::function<void(SSL*)> faults[] = {
      [](SSL* ssl) { Write(ssl, "+"); },
      // The beginning of a record, and of its header.
      [](SSL* ssl) { EXPECT_EQ(send(SSL_get_fd(ssl), "\x17\x03\x03\x00\x40....", 9, 0), 9); },
      [](SSL* ssl) { EXPECT_EQ(send(SSL_get_fd(ssl), "\x17", 1, 0), 1); },
  };
  for (const auto& fault : faults) {
    std::promise<void> go;
    const auto peer = Peer([&](SSL* ssl) {
      go.get_future().wait();
      fault(ssl);
      EXPECT_EQ(Read(ssl), "");
    });
    const auto link = Connect(*peer);
    EXPECT_TRUE(link->CheckNothingCame().ok());
    go.set_value();
    ASSERT_TRUE(IsReadable(*link));
    const RedisCommand ping("PING");
    EXPECT_EQ(link->RoundTrip({&ping, 1}, Deadline()).status().code(), absl::StatusCode::kDataLoss);
    link->ShutDown();
  }
}

TEST_P(TlsChannelTest, EndOfTlsAfterAReply_IsSeenByPollThoughTheSocketStaysOpen) {
  std::promise<void> done;
  const auto peer = Peer([&](SSL* ssl) {
    ASSERT_TRUE(ReadUntil(ssl, "PING\r\n"));
    Write(ssl, "+PONG\r\n");
    SSL_shutdown(ssl);
    done.get_future().wait();
  });
  const auto link = Connect(*peer);
  const RedisCommand ping("PING");
  const auto replies = link->RoundTrip({&ping, 1}, Deadline());
  ASSERT_TRUE(replies.ok()) << replies.status();
  ASSERT_TRUE(IsReadable(*link));
  absl::StatusOr<bool> received = false;
  while (received.ok()) {
    ASSERT_TRUE(IsReadable(*link));
    received = link->Receive();
  }
  EXPECT_EQ(received.status(), absl::UnavailableError("the server closed the connection"));
  EXPECT_TRUE(IsReadable(*link));
  EXPECT_EQ(link->CheckNothingCame().code(), absl::StatusCode::kUnavailable);
  done.set_value();
}

TEST_P(TlsChannelTest, EndOfTlsOnAnIdleConnection_IsFoundBeforeACommandIsSent) {
  std::promise<void> done;
  const auto peer = Peer([&](SSL* ssl) {
    SSL_shutdown(ssl);
    done.get_future().wait();
  });
  const auto link = Connect(*peer);
  ASSERT_TRUE(IsReadable(*link));
  EXPECT_EQ(link->CheckNothingCame(), absl::UnavailableError("the server closed the connection"));
  EXPECT_TRUE(IsReadable(*link));
  done.set_value();
}

TEST_P(TlsChannelTest, EndWithoutAnEndOfTls_SaysSo) {
  std::promise<void> go;
  const auto peer = Peer([&](SSL* ssl) {
    go.get_future().wait();
    Write(ssl, "$10\r\n01234");
  });
  const auto link = Connect(*peer);
  go.set_value();
  absl::StatusOr<bool> received = false;
  while (received.ok()) {
    ASSERT_TRUE(IsReadable(*link));
    received = link->Receive();
  }
  EXPECT_EQ(received.status(), absl::UnavailableError("the server closed the connection, without an end of TLS"));
  RedisReply reply;
  EXPECT_FALSE(link->Next(reply).value());
}

TEST_P(TlsChannelTest, BrokenRecord_EndsTheConnectionWithTheReason) {
  const auto peer = Peer([](SSL* ssl) {
    EXPECT_EQ(send(SSL_get_fd(ssl), "\x17\x03\x03\x00\x20................................", 37, 0), 37);
    Read(ssl);
  });
  const auto link = Connect(*peer);
  absl::StatusOr<bool> received = false;
  while (received.ok()) {
    ASSERT_TRUE(IsReadable(*link));
    received = link->Receive();
  }
  EXPECT_EQ(received.status(),
            absl::UnavailableError("the connection broke: TLS: decryption failed or bad record mac"));
  EXPECT_EQ(link->Send("x").status(), received.status());
  EXPECT_EQ(link->Receive().status(), received.status());
}

TEST_P(TlsChannelTest, ClosedLink_TellsThePeer) {
  std::promise<bool> told;
  const auto peer = Peer([&](SSL* ssl) {
    EXPECT_EQ(Read(ssl), "");
    told.set_value((SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN) != 0);
  });
  Connect(*peer).reset();
  EXPECT_TRUE(told.get_future().get());
}

TEST_P(Tls13ChannelTest, KeyUpdateWhileIdle_IsAnsweredBeforeTheNextCommand) {
  constexpr int kTimes = 20;
  std::promise<void> updated[kTimes];
  std::future<void> go[kTimes];
  std::promise<void> next[kTimes];
  for (int i = 0; i < kTimes; ++i) go[i] = next[i].get_future();
  const auto peer = Peer([&](SSL* ssl) {
    for (int i = 0; i < kTimes; ++i) {
      go[i].wait();
      RequestKeyUpdate(ssl);
      updated[i].set_value();
      Introduce(ssl);  // Answers the PING, which is decrypted with the new key of the client only.
    }
    EXPECT_EQ(Read(ssl), "");
  });
  const auto link = Connect(*peer);
  for (int i = 0; i < kTimes; ++i) {
    next[i].set_value();
    updated[i].get_future().wait();
    ASSERT_TRUE(IsReadable(*link));
    // Either by the check or by the receiver, who finds no data.
    if (i % 2 == 0) {
      const absl::StatusOr<bool> received = link->Receive();
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_FALSE(*received);
    }
    const RedisCommand ping("PING");
    const auto replies = link->RoundTrip({&ping, 1}, Deadline());
    ASSERT_TRUE(replies.ok()) << replies.status();
    EXPECT_EQ(replies->front().text(), "PONG");
  }
}

TEST_P(Tls13ChannelTest, NewSessionWhileIdle_IsKeptAndNoReply) {
  std::promise<void> go;
  const auto peer = Peer([&](SSL* ssl) {
    go.get_future().wait();
    EXPECT_EQ(SSL_new_session_ticket(ssl), 1);
    EXPECT_EQ(SSL_do_handshake(ssl), 1);
    Introduce(ssl);
    EXPECT_EQ(Read(ssl), "");
  });
  const auto link = Connect(*peer);
  while (config_->Get()->TakeSession(peer->endpoint().ToString()) != nullptr) {
  }
  go.set_value();
  ASSERT_TRUE(IsReadable(*link));
  const RedisCommand ping("PING");
  const auto replies = link->RoundTrip({&ping, 1}, Deadline());
  ASSERT_TRUE(replies.ok()) << replies.status();
  EXPECT_NE(config_->Get()->TakeSession(peer->endpoint().ToString()), nullptr);
}

// A real server resumes sessions, and how a connection ended does not matter.
TEST_P(TlsChannelTest, Reconnects_ResumeTheSession) {
  STOCKADE_NEEDS_REDIS();
  testing::RedisServer server(
      {.tls = testing::TlsOf(*authority_),
       .config = {GetParam() == TLS1_3_VERSION ? "tls-protocols \"TLSv1.3\"" : "tls-protocols \"TLSv1.2\""}});
  const RedisEndpoint endpoint = {.host = "127.0.0.1", .port = server.port()};
  const auto context = TlsContext::Create({.ca_file = authority_->ca_file(), .verify = RedisTlsVerify::kFull}).value();
  for (int i = 0; i < 6; ++i) {
    const FileDescriptor fd = ConnectSocket(endpoint, *std::make_shared<Resolver>(), Deadline()).value();
    auto channel = TlsChannel::Open(context, endpoint, fd.get(), Deadline());
    ASSERT_TRUE(channel.ok()) << channel.status();
    EXPECT_EQ((*channel)->resumed(), i > 0) << i;
    ASSERT_EQ((*channel)->Send("PING\r\n").value(), 6);
    std::vector<char> buffer(TlsChannel::kMinBuffer);
    size_t got = 0;
    while (got == 0) {
      pollfd ready{.fd = fd.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&ready, 1, 60'000), 1);
      got = (*channel)->Receive(buffer).value();
    }
    EXPECT_EQ(std::string_view(buffer.data(), got), "+PONG\r\n");
    if (i % 2 == 0) continue;
    server.KillConnections();
    absl::StatusOr<size_t> received = 0;
    while (received.ok()) {
      pollfd ready{.fd = fd.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&ready, 1, 60'000), 1);
      received = (*channel)->Receive(buffer);
    }
  }
  // One that the server has forgotten is a full handshake.
  server.Restart();
  const FileDescriptor fd = ConnectSocket(endpoint, *std::make_shared<Resolver>(), Deadline()).value();
  const auto channel = TlsChannel::Open(context, endpoint, fd.get(), Deadline());
  ASSERT_TRUE(channel.ok()) << channel.status();
  EXPECT_FALSE((*channel)->resumed());
}

// Forms of a host that a certificate does not have: the dot of the root, and the zone of an IPv6 address.
TEST_P(TlsChannelTest, NameOfTheServer_IsCheckedWithoutDotAndZone) {
  const Certificate certificate = authority_->Issue("DNS:cache.example.com,IP:fe80::1");
  const TlsPeer peer(certificate, GetParam(), [](SSL* ssl) { Read(ssl); });
  for (const auto& [host, fits] :
       {std::pair("cache.example.com", true), std::pair("cache.example.com.", true), std::pair("fe80::1%eth0", true),
        std::pair("FE80:0::1", true), std::pair("cache.example.com..", false), std::pair("ache.example.com", false),
        std::pair("fe80::2", false), std::pair("127.0.0.1", false)}) {
    const FileDescriptor fd = ConnectSocket(peer.endpoint(), *std::make_shared<Resolver>(), Deadline()).value();
    const absl::Status status = TlsChannel::Open(config_->Get(), {.host = host}, fd.get(), Deadline()).status();
    EXPECT_EQ(status.code(), fits ? absl::StatusCode::kOk : absl::StatusCode::kUnauthenticated) << host << status;
  }
}

// A new file that cannot be read yet, because the process has no file descriptor for it, or it gets its permissions a
// moment after its name, looks the same once it can be read.
TEST(TlsConfigTest, ChangedFileThatCannotBeRead_IsReadForALaterConnection) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer itself needs file descriptors";
  STOCKADE_NEEDS_OPENSSL();
  CertificateAuthority authority;
  const testing::TempDir dir;
  const std::string file = dir.File("ca.pem");
  std::filesystem::copy_file(authority.ca_file(), file);
  const std::shared_ptr<TlsConfig> config = TlsConfig::Create({.ca_file = file}).value();
  const std::shared_ptr<TlsContext> first = config->Get();
  std::ofstream(file, std::ios::app) << "\n";

  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::shared_ptr<TlsContext> meanwhile = config->Get();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);

  EXPECT_EQ(meanwhile, first);
  const std::shared_ptr<TlsContext> second = config->Get();
  EXPECT_NE(second, first);
  EXPECT_EQ(config->Get(), second);
}

std::string VersionName(const ::testing::TestParamInfo<int>& version) {
  return version.param == TLS1_3_VERSION ? "Tls13" : "Tls12";
}
INSTANTIATE_TEST_SUITE_P(Tls, TlsChannelTest, ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION), VersionName);
INSTANTIATE_TEST_SUITE_P(Tls, Tls13ChannelTest, ::testing::Values(TLS1_3_VERSION), VersionName);

}  // namespace
}  // namespace stockade::redis_internal
