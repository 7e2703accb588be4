// The HTTP service of step 11: its parser, and the service on a socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "event_loop/http.h"
#include "event_loop/web_server.h"
#include "event_loop/web_shop.h"
#include "support/http.h"

namespace stockade::testing {
namespace {

using shop::Request;
using shop::Response;
using shop::TakeRequest;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What is left of `received` afterwards must be `left`.
Request Taken(std::string received, const std::string& left = "") {
  const auto request = TakeRequest(received);
  EXPECT_TRUE(request.ok() && request->has_value()) << request.status();
  EXPECT_EQ(received, left);
  return request.ok() && request->has_value() ? **request : Request{};
}
bool IsIncomplete(std::string received) {
  const auto request = TakeRequest(received);
  return request.ok() && !request->has_value();
}
bool IsRefused(std::string received) { return absl::IsInvalidArgument(TakeRequest(received).status()); }

TEST(EventLoopHttpTest, ARequest_IsTakenWithItsQueryAndTrace) {
  const Request request = Taken(
      "POST /orders?sku=shoe-1&user=ann&empty= HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nCONNECTION: x , Close\r\n"
      "Traceparent:\t00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 \r\n\r\nGET /next",
      "GET /next");
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/orders");
  EXPECT_EQ(request.Get("sku"), "shoe-1");
  EXPECT_EQ(request.Get("user"), "ann");
  EXPECT_EQ(request.Get("empty"), "");
  EXPECT_EQ(request.Get("other"), "");
  EXPECT_FALSE(request.keep_alive);
  EXPECT_EQ(request.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(shop::Format({.status = 201, .body = "ok\n"}, request),
            "HTTP/1.1 201 Created\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            "Trace-Id: 4bf92f3577b34da6a3ce929d0e0e4736\r\nConnection: close\r\n\r\nok\n");
}

TEST(EventLoopHttpTest, WithoutATrace_ItHasANewOne) {
  const std::string one = Taken("GET / HTTP/1.1\r\nHost: x\r\n\r\n").trace_id;
  EXPECT_EQ(one.size(), 32u);
  EXPECT_NE(one, Taken("GET / HTTP/1.1\r\nHost: x\r\ntraceparent: 00-4BF9\r\n\r\n").trace_id);
}

TEST(EventLoopHttpTest, ATraceThatIsNone_IsReplaced) {
  const std::string id = "4bf92f3577b34da6a3ce929d0e0e4736";
  for (const std::string& wrong : {std::string("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
                                   "00-" + id + "X00f067aa0ba902b7-01", "00-" + id + "-00f067aa0ba902b7-0Z",
                                   "01-" + id + "-00f067aa0ba902b7-01", "00-" + id + "-00f067aa0ba902b7-01-x"}) {
    const Request request = Taken("GET / HTTP/1.1\r\nHost: x\r\ntraceparent: " + wrong + "\r\n\r\n");
    EXPECT_NE(request.trace_id, wrong.substr(3, 32)) << wrong;
    EXPECT_EQ(request.trace_id.size(), 32u);
  }
}

TEST(EventLoopHttpTest, EachPart_IsIncomplete) {
  const std::string whole = "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n";
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) EXPECT_TRUE(IsIncomplete(whole.substr(0, bytes))) << bytes;
}

TEST(EventLoopHttpTest, WhatIsNoRequest_IsRefused) {
  for (const char* const line :
       {"GET /", "GET / HTTP/1.0", "GET  / HTTP/1.1", "G T / HTTP/1.1", " / HTTP/1.1", "GET x HTTP/1.1",
        "GET /%41 HTTP/1.1", "GET /a\x01 HTTP/1.1", "GET /?a HTTP/1.1", "GET /?a=1&a=2 HTTP/1.1",
        "GET /?a=%31 HTTP/1.1", "", "GET /?=&= HTTP/1.1", "HEAD / HTTP/1.1", "get / HTTP/1.1"}) {
    EXPECT_TRUE(IsRefused(std::string(line) + "\r\nHost: x\r\n\r\n")) << line;
  }
  for (const char* const header :
       {"no colon", " folded: x", "a b: x", ": x", "a: \x01", "a: x\ny", "Content-Length: 1", "content-length: 0, 0",
        "Transfer-Encoding: chunked", "TRANSFER-ENCODING:identity"}) {
    EXPECT_TRUE(IsRefused(std::string("GET / HTTP/1.1\r\nHost: x\r\n") + header + "\r\n\r\n")) << header;
  }
  EXPECT_TRUE(IsRefused("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(IsRefused("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"));
  EXPECT_TRUE(IsRefused(std::string("GET / HTTP/1.1\r\na: \0\r\n\r\n", 24)));
}

// Of its head without the empty line.
TEST(EventLoopHttpTest, AHead_IsAtMost8KiB) {
  const std::string begin = "GET / HTTP/1.1\r\nHost: x\r\na: ";
  const std::string fits = begin + std::string(Request::kMostHeadBytes - begin.size(), 'x');
  Taken(fits + "\r\n\r\n");
  for (const char* const part : {"", "\r", "\r\n", "\r\n\r"}) EXPECT_TRUE(IsIncomplete(fits + part)) << part;
  EXPECT_TRUE(IsRefused(fits + "x\r\n\r\n"));
  EXPECT_TRUE(IsRefused(fits + "xxxx"));
}

class Echo final : public shop::WebShop {
 public:
  asio::awaitable<Response> Answer(const Request& request) override { co_return Response{.body = request.path + "\n"}; }
};

TEST(EventLoopServerTest, RequestsOfOneSend_AreAnsweredInOrder_AndABadOneEndsTheConnection) {
  prometheus::Registry metrics;
  shop::WebServer server(0, metrics, [](const auto&) { return std::make_unique<Echo>(); });
  RawConnection client(server.port());
  ASSERT_TRUE(client.connected());
  ASSERT_TRUE(
      client.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\nGET /3 "
                  "HTTP/1.1\r\nHost: x\r\n\r\n"));
  const std::string answers = client.ReadToEnd();
  EXPECT_THAT(answers, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("/1\nHTTP"),
                             HasSubstr("/2\nHTTP/1.1 400 Bad"), HasSubstr("no request\n")));
  EXPECT_EQ(answers.find("/3"), std::string::npos);
}

TEST(EventLoopServerTest, ItEndsWithItsConnections) {
  prometheus::Registry metrics;
  auto server = std::make_unique<shop::WebServer>(0, metrics, [](const auto&) { return std::make_unique<Echo>(); });
  RawConnection idle(server->port()), half(server->port());
  ASSERT_TRUE(half.Send("GET /"));
  server.reset();
  EXPECT_EQ(idle.ReadToEnd(), "");
  EXPECT_EQ(half.ReadToEnd(), "");
}

}  // namespace
}  // namespace stockade::testing
