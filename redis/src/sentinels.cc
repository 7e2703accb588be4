#include "sentinels.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "host_name.h"
#include "now.h"
#include "status.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

std::optional<RedisEndpoint> EndpointOf(std::string_view host, std::string_view port) {
  RedisEndpoint endpoint{.host = std::string(host)};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size() || endpoint.port == 0 || !IsHostName(host)) {
    return std::nullopt;
  }
  return endpoint;
}

std::string_view FieldOf(std::span<const RedisReply> fields, std::string_view name) {
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (fields[i].text() == name) return fields[i + 1].text();
  }
  return {};
}

// Of SENTINEL SENTINELS: an array of names and values for each. What cannot be read is left out.
std::vector<RedisEndpoint> OthersOf(const RedisReply& reply) {
  std::vector<RedisEndpoint> others;
  for (const RedisReply& other : reply.elements()) {
    std::optional<RedisEndpoint> endpoint =
        EndpointOf(FieldOf(other.elements(), "ip"), FieldOf(other.elements(), "port"));
    if (endpoint) others.push_back(*std::move(endpoint));
  }
  return others;
}

}  // namespace

Sentinels::Sentinels(const RedisUrl& url, const RedisOptions& options, std::shared_ptr<TlsConfig> tls)
    : master_name_(url.master_name),
      at_master_(IdentityOf(url, std::move(tls))),
      at_sentinels_{.username = url.sentinel_username,
                    .password = url.sentinel_password,
                    .name_process = true,
                    .tls = at_master_.tls,
                    .resolver = at_master_.resolver},
      max_reply_bytes_(options.max_reply_bytes),
      allowed_hosts_(url, options),
      order_(url.endpoints) {}

absl::StatusOr<std::unique_ptr<Link>> Sentinels::ConnectToMaster(Instant deadline) {
  const std::vector<RedisEndpoint> sentinels = order_.Get();
  std::vector<RedisEndpoint> tried;
  std::string said;
  auto code = absl::StatusCode::kUnavailable;
  for (size_t i = 0; i < sentinels.size(); ++i) {
    const size_t left = sentinels.size() - i;
    const absl::StatusOr<RedisEndpoint> named = AskForMasterAt(sentinels[i], EndOfTurn(Now(), deadline, left));
    absl::Status failed = named.status();
    if (named.ok() && std::find(tried.begin(), tried.end(), *named) != tried.end()) {
      failed = absl::UnavailableError(Concat("also names ", named->ToString()));
    } else if (named.ok()) {
      tried.push_back(*named);
      absl::StatusOr<std::unique_ptr<Link>> link =
          ConnectAsMaster(*named, left > 1 ? EndOfTurn(Now(), deadline, 1) : deadline);
      if (link.ok()) return link;
      failed = link.status();
    }
    order_.Failed(sentinels[i]);
    said += Concat(said.empty() ? "" : "; ", "sentinel ", sentinels[i].ToString(), ": ", std::string(failed.message()));
    if (failed.code() != absl::StatusCode::kUnavailable) code = failed.code();
  }
  // That one Sentinel does not know the name counts only where no other does.
  if (code == absl::StatusCode::kFailedPrecondition && !tried.empty()) code = absl::StatusCode::kUnavailable;
  return absl::Status(code, Concat("no master '", master_name_, "': ", said));
}

absl::StatusOr<std::unique_ptr<Link>> Sentinels::ConnectAsMaster(const RedisEndpoint& server, Instant deadline) const {
  const absl::Status allowed = allowed_hosts_.Check(server);
  if (!allowed.ok()) return allowed;
  absl::StatusOr<std::unique_ptr<Link>> link = Link::Connect(server, at_master_, max_reply_bytes_, deadline);
  if (!link.ok()) return link;
  const RedisCommand role("ROLE");
  const absl::StatusOr<std::vector<RedisReply>> replies = (*link)->RoundTrip({&role, 1}, deadline);
  if (!replies.ok()) {
    return absl::Status(replies.status().code(),
                        Concat(server.ToString(), ": ", std::string(replies.status().message())));
  }
  const RedisReply& reply = replies->front();
  // An ACL may forbid ROLE; then a replica shows by refusing to write.
  if (reply.is_error() && ErrorCodeOf(reply.text()) == "NOPERM") return link;
  if (!reply.elements().empty() && reply.elements().front().text() == "master") return link;
  const std::string said = reply.is_error()
                               ? std::string(StatusOfErrorReply(reply.text(), ServerText::kHidden).message())
                               : "its ROLE differs";
  return absl::UnavailableError(Concat(server.ToString(), " is not the master: ", said));
}

absl::StatusOr<std::unique_ptr<Link>> Sentinels::ConnectToReplica(Instant deadline) {
  absl::Status failed = absl::UnavailableError(Concat("no replica of '", master_name_, "' is up"));
  const std::vector<RedisEndpoint> sentinels = order_.Get();
  for (size_t i = 0; i < sentinels.size(); ++i) {
    const Instant end = EndOfTurn(Now(), deadline, sentinels.size() - i);
    absl::StatusOr<std::vector<RedisEndpoint>> replicas = AskForReplicasAt(sentinels[i], end);
    if (!replicas.ok()) {
      failed = replicas.status();
      continue;
    }
    std::shuffle(replicas->begin(), replicas->end(), std::minstd_rand(std::random_device{}()));
    for (size_t at = 0; at < replicas->size(); ++at) {
      absl::StatusOr<std::unique_ptr<Link>> link =
          ConnectAsReplica((*replicas)[at], EndOfTurn(Now(), deadline, replicas->size() - at));
      if (link.ok()) return link;
      failed = link.status();
    }
  }
  return failed;
}

absl::StatusOr<std::vector<RedisEndpoint>> Sentinels::AskForReplicasAt(const RedisEndpoint& sentinel,
                                                                       Instant deadline) const {
  const absl::StatusOr<std::unique_ptr<Link>> link = Connect(sentinel, deadline);
  if (!link.ok()) return link.status();
  const RedisCommand question = RedisCommand("SENTINEL").Arg("REPLICAS").Arg(master_name_);
  const absl::StatusOr<std::vector<RedisReply>> replies = (*link)->RoundTrip({&question, 1}, deadline);
  if (!replies.ok()) return replies.status();
  if (replies->front().is_error()) return StatusOfErrorReply(replies->front().text());
  std::vector<RedisEndpoint> replicas;
  for (const RedisReply& replica : replies->front().elements()) {
    const std::string_view flags = FieldOf(replica.elements(), "flags");
    if (flags.find("down") != std::string_view::npos || flags.find("disconnected") != std::string_view::npos) continue;
    if (FieldOf(replica.elements(), "master-link-status") != "ok") continue;
    const std::optional<RedisEndpoint> endpoint =
        EndpointOf(FieldOf(replica.elements(), "ip"), FieldOf(replica.elements(), "port"));
    if (endpoint) replicas.push_back(*endpoint);
  }
  allowed_hosts_.Filter(replicas);
  return replicas;
}

absl::StatusOr<std::unique_ptr<Link>> Sentinels::ConnectAsReplica(const RedisEndpoint& server, Instant deadline) const {
  absl::StatusOr<std::unique_ptr<Link>> link = Link::Connect(server, at_master_, max_reply_bytes_, deadline);
  if (!link.ok()) return link;
  const RedisCommand role("ROLE");
  const absl::StatusOr<std::vector<RedisReply>> replies = (*link)->RoundTrip({&role, 1}, deadline);
  if (!replies.ok()) return replies.status();
  const RedisReply& reply = replies->front();
  if (reply.is_error() && ErrorCodeOf(reply.text()) == "NOPERM") return link;
  const std::span<const RedisReply> parts = reply.elements();
  if (parts.size() >= 4 && parts[0].text() == "slave" && parts[3].text() == "connected") return link;
  return absl::UnavailableError(Concat(server.ToString(), " is not a replica that follows its master"));
}

absl::StatusOr<std::unique_ptr<Link>> Sentinels::Connect(const RedisEndpoint& sentinel, Instant deadline) const {
  return Link::Connect(sentinel, at_sentinels_, max_reply_bytes_, deadline);
}

absl::StatusOr<RedisEndpoint> Sentinels::AskForMasterAt(const RedisEndpoint& sentinel, Instant deadline) {
  const absl::StatusOr<std::unique_ptr<Link>> link = Connect(sentinel, deadline);
  if (!link.ok()) return link.status();
  return AskForMaster(**link, deadline);
}

absl::StatusOr<RedisEndpoint> Sentinels::AskForMaster(Link& sentinel, Instant deadline) {
  const RedisCommand questions[] = {
      RedisCommand("SENTINEL").Arg("GET-MASTER-ADDR-BY-NAME").Arg(master_name_),
      RedisCommand("SENTINEL").Arg("SENTINELS").Arg(master_name_),
  };
  const absl::StatusOr<std::vector<RedisReply>> replies = sentinel.RoundTrip(questions, deadline);
  if (!replies.ok()) return replies.status();
  const RedisReply& named = replies->front();
  if (named.is_error()) return StatusOfErrorReply(named.text());
  if (named.is_nil()) return absl::FailedPreconditionError(Concat("unknown master '", master_name_, "'"));
  const std::span<const RedisReply> parts = named.elements();
  std::optional<RedisEndpoint> endpoint;
  if (parts.size() == 2) endpoint = EndpointOf(parts[0].text(), parts[1].text());
  if (!endpoint) return absl::UnavailableError(Concat("named no address: ", named.ToString()));
  std::vector<RedisEndpoint> others = OthersOf(replies->back());
  allowed_hosts_.Filter(others);
  order_.Answered(sentinel.endpoint(), others);
  return *std::move(endpoint);
}

}  // namespace stockade::redis_internal
