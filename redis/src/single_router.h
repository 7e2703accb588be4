#ifndef STOCKADE_REDIS_SINGLE_ROUTER_H_
#define STOCKADE_REDIS_SINGLE_ROUTER_H_

#include <memory>
#include <string_view>
#include <utility>

#include "router.h"
#include "status.h"

namespace stockade::redis_internal {

// One server; single-server routers differ only in how they find it. `finds_master`: `make_link` connects to a master
// only, so an answer of a replica means that the master has moved.
class SingleRouter final : public Router {
 public:
  SingleRouter(LinkMaker make_link, bool finds_master, const PipelineOptions& options, TimerQueue* timers,
               ComponentMetrics* metrics)
      : make_link_(std::move(make_link)),
        finds_master_(finds_master),
        options_(options),
        timers_(timers),
        metrics_(metrics) {}

  absl::Status Start(bool wait) override {
    absl::StatusOr<std::shared_ptr<Pipeline>> pipeline = Pipeline::Start(make_link_, options_, timers_, metrics_);
    if (!pipeline.ok()) return pipeline.status();
    pipeline_ = *std::move(pipeline);
    return wait ? pipeline_->AwaitFirstAttempt() : absl::OkStatus();
  }
  void Stop() override {
    if (pipeline_ != nullptr) pipeline_->Stop();
  }

  absl::StatusOr<Hop> Route(const RedisCommand&) override { return Hop{.pipeline = pipeline_}; }

  Verdict OnErrorReply(std::string_view error, Hop&) override {
    const std::string_view code = ErrorCodeOf(error);
    if (code == "LOADING" || code == "MASTERDOWN") return Verdict::kRetryLater;
    if (code != "READONLY" || !finds_master_) return Verdict::kFinal;
    pipeline_->Drop(absl::UnavailableError("the server is no longer the master"));
    return Verdict::kRetryLater;
  }
  Verdict OnFailure(const absl::Status&, Hop&) override { return Verdict::kRetryNow; }

  absl::StatusOr<std::unique_ptr<Link>> ConnectForChannel(std::string_view, Instant deadline) override {
    return make_link_(deadline);
  }

  // Leaves a server that is not the master any more.
  void DropUnlessTo(const RedisEndpoint& master, const absl::Status& why) { pipeline_->Drop(why, &master); }
  void ConnectNow() { pipeline_->ConnectNow(); }

  size_t pending() const override { return pipeline_->pending(); }

 private:
  const LinkMaker make_link_;
  const bool finds_master_;
  const PipelineOptions options_;
  TimerQueue* const timers_;
  ComponentMetrics* const metrics_;
  std::shared_ptr<Pipeline> pipeline_;  // Set by Start(); null: it failed.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SINGLE_ROUTER_H_
