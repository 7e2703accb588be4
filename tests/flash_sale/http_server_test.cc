#include "common/http_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/http.h"

namespace examples {
namespace {

using stockade::testing::RawConnection;

// More than the server has threads for, or accepts, and all of them older than the one that is answered. Their own
// time-outs would not end them before the test's deadline.
void ExpectAnswerBeside(const std::string& sent_by_others) {
  HttpServer server([](httplib::Request&) { return true; }, absl::Minutes(30), absl::Minutes(30));
  server.Get("/",
             [](const httplib::Request&, httplib::Response& response) { response.set_content("here", "text/plain"); });
  ASSERT_TRUE(server.Bind(0));
  server.Start();
  std::vector<std::unique_ptr<RawConnection>> others;
  for (int i = 0; i < 400; ++i) {
    others.push_back(std::make_unique<RawConnection>(server.port()));
    ASSERT_TRUE(others.back()->connected());
    others.back()->Send(sent_by_others);  // Which the server may have closed by now.
  }
  httplib::Client honest("127.0.0.1", server.port());
  honest.set_read_timeout(60);
  for (int i = 0; i < 3; ++i) {
    const auto answer = honest.Get("/");
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->body, "here");
  }
}

TEST(HttpServerTest, Get_BesideManyWhoSendNothing_IsAnswered) { ExpectAnswerBeside(""); }

TEST(HttpServerTest, Get_BesideManyWhoSendHalfAHead_IsAnswered) { ExpectAnswerBeside("GET / HTTP/1.1\r\nHost: a\r\n"); }

TEST(HttpServerTest, Get_BesideManyWhoSendNoBody_IsAnswered) {
  ExpectAnswerBeside("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
}

TEST(HttpServerTest, Get_BesideManyWhoAskNothingMore_IsAnswered) {
  ExpectAnswerBeside("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

}  // namespace
}  // namespace examples
