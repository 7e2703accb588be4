#ifndef STOCKADE_TESTS_REDIS_SUPPORT_CHANNEL_ROUTER_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_CHANNEL_ROUTER_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "router.h"

namespace stockade::testing {

// For tests of subscriptions by themselves: a router that has no way for commands.
class ChannelRouter : public redis_internal::Router {
 public:
  absl::Status Start(bool /*wait*/) override { return absl::OkStatus(); }
  void Stop() override {}
  absl::StatusOr<redis_internal::Hop> Route(const RedisCommand&) override {
    return absl::UnimplementedError("no commands");
  }
  redis_internal::Verdict OnErrorReply(std::string_view, redis_internal::Hop&) override {
    return redis_internal::Verdict::kFinal;
  }
  redis_internal::Verdict OnFailure(const absl::Status&, redis_internal::Hop&) override {
    return redis_internal::Verdict::kFinal;
  }
  size_t pending() const override { return 0; }
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_CHANNEL_ROUTER_H_
