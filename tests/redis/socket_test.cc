#include "socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "stockade/base/clock.h"
#include "support/loopback.h"

namespace stockade::redis_internal {
namespace {

// A caller that has checked the whole name must not be connected to the host that its beginning names.
TEST(SocketTest, ConnectSocket_HostWithANul_IsInvalidArgument) {
  const uint16_t port = testing::FreePort();
  const FileDescriptor listener(testing::BoundSocket(port));
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const Instant deadline = Clock::System()->Now() + absl::Minutes(1);
  const auto resolver = std::make_shared<Resolver>();
  EXPECT_TRUE(ConnectSocket({.host = "127.0.0.1", .port = port}, *resolver, deadline).ok());
  const absl::Status refused =
      ConnectSocket({.host = std::string("127.0.0.1\0.example.com", 22), .port = port}, *resolver, deadline).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(std::string(refused.message()).find('\0'), std::string::npos) << refused;
}

}  // namespace
}  // namespace stockade::redis_internal
