#include "event_loop/load.h"

#include <algorithm>
#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address_v4.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <random>
#include <stdexcept>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "database.h"

namespace shop {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

class Load {
 public:
  explicit Load(const LoadOptions& options) : options_(options) {}

  LoadReport Run() {
    begun_ = Clock::now();
    for (int i = 0; i < options_.connections; ++i) asio::co_spawn(io_, Client(i), asio::detached);
    io_.run();
    report_.lasted = Clock::now() - begun_;
    return std::move(report_);
  }

 private:
  std::string NextRequest(int client, int64_t number) {
    const std::string sku = absl::StrCat("shoe-", random_() % Database::kShoes);
    if (static_cast<int>(random_() % 100) >= options_.orders_percent) {
      return absl::StrCat("GET /products/", sku, " HTTP/1.1\r\nHost: shop\r\n\r\n");
    }
    return absl::StrCat("POST /orders?sku=", sku, "&user=", random_() % kUsers, "&request=", options_.name, "-", client,
                        "-", number, " HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n");
  }

  // The status. Throws if the connection ends.
  asio::awaitable<int> Exchange(tcp::socket& socket, const std::string& request) {
    co_await asio::async_write(socket, asio::buffer(request), use_awaitable);
    std::string answer;
    const size_t head =
        co_await asio::async_read_until(socket, asio::dynamic_buffer(answer), "\r\n\r\n", use_awaitable);
    int status = 0;
    size_t body = 0;
    constexpr std::string_view kLength = "Content-Length: ";
    const size_t length = answer.find(kLength);
    if (length == std::string::npos || !absl::SimpleAtoi(answer.substr(9, 3), &status) ||
        !absl::SimpleAtoi(answer.substr(length + kLength.size(), answer.find('\r', length) - length - kLength.size()),
                          &body)) {
      throw std::runtime_error("the answer is no answer: " + answer);
    }
    if (answer.size() < head + body) {
      const size_t rest = head + body - answer.size();
      co_await asio::async_read(socket, asio::dynamic_buffer(answer), asio::transfer_exactly(rest), use_awaitable);
    }
    co_return status;
  }

  asio::awaitable<void> Client(int number) {
    try {
      tcp::socket socket(io_);
      co_await socket.async_connect({asio::ip::address_v4::loopback(), options_.port}, use_awaitable);
      socket.set_option(tcp::no_delay(true));
      asio::steady_timer timer(io_);
      const auto end = begun_ + options_.duration;
      const auto between = std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(options_.rate > 0 ? options_.connections / options_.rate : 0));
      // Their times are spread.
      Clock::time_point next = begun_ + between * number / options_.connections;
      for (int64_t i = 0;; ++i) {
        if (options_.rate > 0) {
          timer.expires_at(next);
          co_await timer.async_wait(use_awaitable);
          next += between;
        }
        const Clock::time_point sent = Clock::now();
        if (sent >= end) co_return;
        const std::string request = NextRequest(number, i);
        const int status = co_await Exchange(socket, request);
        report_.took.push_back(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - sent));
        ++report_.answers;
        ++report_.of_status[status];
      }
    } catch (const std::exception&) {
      ++report_.broken;
    }
  }

  const LoadOptions options_;
  asio::io_context io_{1};
  std::minstd_rand random_{std::random_device{}()};
  Clock::time_point begun_;
  LoadReport report_;
};

}  // namespace

int64_t LoadReport::Late(std::chrono::microseconds limit) const {
  return std::ranges::count_if(took, [&](std::chrono::microseconds time) { return time > limit; });
}

LoadReport RunLoad(const LoadOptions& options) { return Load(options).Run(); }

}  // namespace shop
