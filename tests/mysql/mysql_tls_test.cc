// TLS of a connection to a real server: each row of the table of mysql/README.md is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "docs/document_table.h"
#include "mysql/support/mariadb_server.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_connection.h"
#include "stockade/mysql/internal/mysql_url.h"
#include "support/certificates.h"
#include "support/temp_dir.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Certificate;
using testing::CertificateAuthority;
using ::testing::HasSubstr;
using testing::MariaDbServer;
using ::testing::Not;

TEST(MySqlTlsTest, TableOfErrors_IsWhatAConnectionReturns) {
  STOCKADE_NEEDS_MARIADB();
  MariaDbServer server({.tls = true});
  CertificateAuthority other("another CA");
  const Certificate mine = server.authority().Issue();
  const testing::TempDir dir;
  std::ofstream(dir.File("text.pem")) << "text";
  server.Query("CREATE USER shop@'127.0.0.1' IDENTIFIED BY 'secret' REQUIRE X509");
  server.Query("GRANT ALL ON test.* TO shop@'127.0.0.1'");
  const auto open = [](const std::string& url, const std::string& parameters) {
    return mysql_internal::MySqlConnection::Open(
               mysql_internal::ParseMySqlUrl(url + "?tls=verify" + parameters, {.connect_timeout = absl::Seconds(20)})
                   .value(),
               -1)
        .status();
  };
  const auto own = [](const Certificate& certificate) {
    return Concat("&tls_cert=", certificate.cert_file, "&tls_key=", certificate.key_file);
  };
  const std::string trusting = "&tls_ca=" + server.ca_file();
  std::string as_shop = server.url();
  as_shop.replace(as_shop.find("stockade:"), 8, "shop");
  ASSERT_EQ(open(server.url(), trusting), absl::OkStatus());
  ASSERT_EQ(open(as_shop, trusting + own(mine)), absl::OkStatus());

  const std::pair<std::string, std::function<absl::Status()>> made[] = {
      {"another CA has signed the server's certificate",
       [&] { return open(server.url(), "&tls_ca=" + other.ca_file()); }},
      {"the server's certificate has expired",
       [&] {
         const MariaDbServer expired({.tls = true, .days = -1});
         return open(expired.url(), "&tls_ca=" + expired.ca_file());
       }},
      {"the server's certificate is for another host",
       [&] {
         const MariaDbServer foreign({.tls = true, .names = "DNS:example.com,IP:10.0.0.7"});
         return open(foreign.url(), "&tls_ca=" + foreign.ca_file());
       }},
      {"the server has no TLS",
       [&] {
         const MariaDbServer plain;
         return open(plain.url(), trusting);
       }},
      {"the user must have a certificate, and none is set", [&] { return open(as_shop, trusting); }},
      {"the server does not accept the client's certificate",
       [&] {
         absl::Status refused = open(as_shop, trusting + own(other.Issue()));
         // The connection may end before the reason is read.
         for (int i = 0; i < 50 && absl::IsUnavailable(refused); ++i)
           refused = open(as_shop, trusting + own(other.Issue()));
         return refused;
       }},
      {"a file is missing", [&] { return open(server.url(), "&tls_ca=" + dir.File("none.pem")); }},
      {"a file has no certificate", [&] { return open(server.url(), "&tls_ca=" + dir.File("text.pem")); }},
      {"the key is not that of the certificate",
       [&] {
         return open(server.url(),
                     trusting + own({.cert_file = mine.cert_file, .key_file = server.authority().Issue().key_file}));
       }},
  };
  std::vector<std::string> documented = testing::DocumentedTable("mysql/README.md", "| what goes wrong |");
  for (size_t i = 0; i < std::size(made); ++i) {
    // On a thread of its own: the connector may take what it has left there for the reason of the next error.
    absl::Status status;
    std::thread([&] { status = made[i].second(); }).join();
    const std::string told = Concat("| ", made[i].first, " | ", absl::StatusCodeToString(status.code()), " | `");
    const std::string row = i + 2 < documented.size() ? documented[i + 2] : "";
    EXPECT_TRUE(row.starts_with(told)) << row << "\nbut it is\n" << told << "\n" << status;
    const std::string words = row.substr(std::min(told.size(), row.size()));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words.substr(0, words.find('`')))) << made[i].first;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
  EXPECT_EQ(documented.size(), std::size(made) + 2);
}

}  // namespace
}  // namespace stockade
