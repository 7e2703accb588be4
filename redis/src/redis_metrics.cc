#include "redis_metrics.h"

namespace stockade::redis_internal {

std::span<const MetricDef> RedisMetricDefs() {
  static constexpr std::string_view kCommands = "stockade_redis_commands_total";
  static constexpr std::string_view kCommandsHelp = "Commands, by result.";
  static constexpr std::string_view kConnects = "stockade_redis_connects_total";
  static constexpr std::string_view kConnectsHelp = "Attempts to connect, including the first one, by result.";
  static constexpr MetricDef kDefs[] = {
      {MetricType::kCounter, kCommands, kCommandsHelp, "result", "success"},
      {MetricType::kCounter, kCommands, kCommandsHelp, "result", "error"},
      {MetricType::kCounter, kCommands, kCommandsHelp, "result", "timeout"},
      {MetricType::kCounter, kCommands, kCommandsHelp, "result", "unavailable"},
      {MetricType::kCounter, kCommands, kCommandsHelp, "result", "unknown_outcome"},
      {MetricType::kCounter, kCommands, kCommandsHelp, "result", "refused"},
      {MetricType::kCounter, kCommands, kCommandsHelp, "result", "cancelled"},
      {MetricType::kSecondsHistogram, "stockade_redis_round_trip_seconds",
       "Time from queueing a command for its connection to its reply."},
      {MetricType::kCountHistogram, "stockade_redis_pipeline_commands", "Commands that were sent together."},
      {MetricType::kCounter, kConnects, kConnectsHelp, "result", "success"},
      {MetricType::kCounter, kConnects, kConnectsHelp, "result", "error"},
      {MetricType::kCounter, "stockade_redis_connections_lost_total", "Connections that broke or were dropped."},
      {MetricType::kGauge, "stockade_redis_pending_commands", "Commands that wait to be sent or for their replies."},
      {MetricType::kCounter, "stockade_redis_retries_total",
       "Commands sent again: redirected, refused for now, a script that the server did not have, idempotent with a "
       "lost reply."},
      {MetricType::kCounter, "stockade_redis_messages_total", "Messages received on subscribed channels."},
      {MetricType::kGauge, "stockade_redis_subscriptions", "Channels that are subscribed or wait to be subscribed."},
  };
  return kDefs;
}

}  // namespace stockade::redis_internal
