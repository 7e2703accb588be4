#include "status.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

constexpr char kOutcomeUrl[] = "stockade/redis/outcome";
constexpr char kErrorCodeUrl[] = "stockade/redis/error_code";
constexpr char kUnprovenUrl[] = "stockade/redis/unproven";
constexpr char kNoRoomUrl[] = "stockade/redis/no_room";
constexpr char kNoDescriptorUrl[] = "stockade/redis/no_descriptor";

// Nothing for a word that is not known.
std::optional<absl::StatusCode> CodeOf(std::string_view error_code) {
  static constexpr std::pair<std::string_view, absl::StatusCode> kCodes[] = {
      {"DENIED", absl::StatusCode::kUnknown},
      {"LOADING", absl::StatusCode::kUnavailable},
      {"READONLY", absl::StatusCode::kUnavailable},
      {"MASTERDOWN", absl::StatusCode::kUnavailable},
      {"CLUSTERDOWN", absl::StatusCode::kUnavailable},
      {"TRYAGAIN", absl::StatusCode::kUnavailable},
      {"MOVED", absl::StatusCode::kUnavailable},
      {"ASK", absl::StatusCode::kUnavailable},
      {"BUSY", absl::StatusCode::kUnavailable},
      {"NOREPLICAS", absl::StatusCode::kUnavailable},
      {"MISCONF", absl::StatusCode::kUnavailable},
      {"OOM", absl::StatusCode::kResourceExhausted},
      {"NOAUTH", absl::StatusCode::kUnauthenticated},
      {"WRONGPASS", absl::StatusCode::kUnauthenticated},
      {"NOPERM", absl::StatusCode::kPermissionDenied},
      {"WRONGTYPE", absl::StatusCode::kFailedPrecondition},
      {"NOSCRIPT", absl::StatusCode::kFailedPrecondition},
      {"EXECABORT", absl::StatusCode::kFailedPrecondition},
      {"CROSSSLOT", absl::StatusCode::kInvalidArgument},
  };
  for (const auto& [name, code] : kCodes) {
    if (error_code == name) return code;
  }
  return std::nullopt;
}

// Of an error that begins with ERR, which says nothing by itself: as Redis 2.6 to 8 and Valkey word it.
absl::StatusCode CodeOfErr(std::string_view text) {
  // Of a command, a key or a channel within a script. Older servers put the name of the script before it.
  if (absl::StrContains(base_internal::AbslView(text), "The user executing the script can't")) {
    return absl::StatusCode::kPermissionDenied;
  }
  static constexpr std::pair<std::string_view, absl::StatusCode> kCodes[] = {
      {"ERR AUTH <password> called without any password", absl::StatusCode::kUnauthenticated},
      {"ERR Client sent AUTH, but no password is set", absl::StatusCode::kUnauthenticated},
      {"ERR invalid password", absl::StatusCode::kUnauthenticated},
      {"ERR DB index is out of range", absl::StatusCode::kInvalidArgument},
      {"ERR invalid DB index", absl::StatusCode::kInvalidArgument},
      {"ERR SELECT is not allowed in cluster mode", absl::StatusCode::kInvalidArgument},
      {"ERR max number of clients", absl::StatusCode::kUnavailable},
  };
  for (const auto& [beginning, code] : kCodes) {
    if (text.starts_with(beginning)) return code;
  }
  return absl::StatusCode::kUnknown;
}

// The error's text up to the arguments of the command, if the server repeats them. They may be secret. Servers separate
// them in different ways, so this looks only for the words that all of them use.
std::string_view WithoutArguments(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(base_internal::AbslView(text));
  const size_t at = lower.find("with args beginning");
  if (at == std::string::npos) return text;
  text = text.substr(0, at);
  return text.substr(0, text.find_last_not_of(", \t") + 1);
}

bool IsOneOf(std::string_view command_name, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return absl::EqualsIgnoreCase(base_internal::AbslView(name), base_internal::AbslView(command_name));
  });
}

}  // namespace

bool RedisOutcomeUnknown(const absl::Status& status) { return status.GetPayload(kOutcomeUrl).has_value(); }

std::string RedisErrorCode(const absl::Status& status) {
  const auto code = status.GetPayload(kErrorCodeUrl);
  return code.has_value() ? std::string(*code) : std::string();
}

bool RedisOutOfDescriptors(const absl::Status& status) { return status.GetPayload(kNoDescriptorUrl).has_value(); }

absl::Status RedisErrorStatus(std::string_view error) { return redis_internal::StatusOfErrorReply(error); }

namespace redis_internal {

absl::Status WithUnknownOutcome(const absl::Status& status) {
  // If the last attempt did not send it, an earlier one has.
  const std::string_view again = absl::EndsWith(status.message(), "; not sent") ? " again" : "";
  absl::Status marked(status.code(), Concat(std::string(status.message()), again, "; unknown outcome"));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { marked.SetPayload(url, payload); });
  marked.SetPayload(kOutcomeUrl, absl::Cord("unknown"));
  return marked;
}

absl::Status NoDescriptorError(std::string_view text) {
  absl::Status status = absl::ResourceExhaustedError(AbslView(text));
  status.SetPayload(kNoDescriptorUrl, absl::Cord("true"));
  return status;
}

std::string_view ErrorCodeOf(std::string_view text) { return text.substr(0, text.find(' ')); }

absl::Status StatusOfErrorReply(std::string_view text, ServerText show, std::string_view explanation) {
  std::string_view error_code = ErrorCodeOf(text);
  const std::optional<absl::StatusCode> code = error_code == "ERR" ? CodeOfErr(text) : CodeOf(error_code);
  std::string_view shown = WithoutArguments(text);
  if (show == ServerText::kHidden) shown = error_code = code ? error_code : "ERR";
  absl::Status status(code.value_or(absl::StatusCode::kUnknown),
                      Concat("redis answered: ", shown, explanation.empty() ? "" : "; ", explanation));
  status.SetPayload(kErrorCodeUrl, absl::Cord(AbslView(error_code)));
  return status;
}

absl::Status StatusOfErrorTo(std::string_view command_name, std::string_view text, std::string_view explanation) {
  if (!MayCarryPassword(command_name)) return StatusOfErrorReply(text, ServerText::kShown, explanation);
  return StatusOfErrorReply(text, ServerText::kHidden,
                            Concat("the rest is not shown, because an answer to ", command_name,
                                   " may repeat a password", explanation.empty() ? "" : "; ", explanation));
}

absl::Status UnprovenError() {
  absl::Status status = absl::UnavailableError("redis: the connection has run no transaction yet");
  status.SetPayload(kUnprovenUrl, absl::Cord("unproven"));
  return status;
}

bool IsUnproven(const absl::Status& status) { return status.GetPayload(kUnprovenUrl).has_value(); }

absl::Status NoRoomError(std::string_view text) {
  absl::Status status = absl::UnavailableError(AbslView(text));
  status.SetPayload(kNoRoomUrl, absl::Cord("true"));
  return status;
}

bool IsNoRoom(const absl::Status& status) { return status.GetPayload(kNoRoomUrl).has_value(); }

bool MayCarryPassword(std::string_view command_name) {
  static constexpr std::string_view kNames[] = {"AUTH", "HELLO", "ACL", "CONFIG", "MIGRATE", "SENTINEL"};
  return IsOneOf(command_name, kNames);
}

bool RunsCode(std::string_view command_name) {
  static constexpr std::string_view kNames[] = {"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"};
  // Modules put a dot into the names of their commands.
  return IsOneOf(command_name, kNames) || command_name.find('.') != std::string_view::npos;
}

bool OnlyReads(std::string_view command_name) {
  static constexpr std::string_view kNames =
      " BITCOUNT BITFIELD_RO BITPOS DBSIZE DUMP ECHO EVALSHA_RO EVAL_RO EXISTS EXPIRETIME FCALL_RO GEODIST "
      "GEOHASH GEOPOS GEORADIUSBYMEMBER_RO GEORADIUS_RO GEOSEARCH GET GETBIT GETRANGE HEXISTS HGET HGETALL "
      "HKEYS HLEN HMGET HRANDFIELD HSCAN HSTRLEN HVALS KEYS LCS LINDEX LLEN LPOS LRANGE MGET PEXPIRETIME "
      "PING PTTL RANDOMKEY SCAN SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS SMISMEMBER SORT_RO "
      "SRANDMEMBER SSCAN STRLEN SUBSTR SUNION TIME TTL TYPE XINFO XLEN XPENDING XRANGE XREVRANGE ZCARD "
      "ZCOUNT ZDIFF ZINTER ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK "
      "ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION ";
  return kNames.find(Concat(" ", absl::AsciiStrToUpper(AbslView(command_name)), " ")) != std::string_view::npos;
}

bool ImitatesRefusal(std::string_view error, std::optional<uint16_t> slot) {
  const std::string_view code = ErrorCodeOf(error);
  if (code == "MOVED" || code == "ASK") {
    const std::vector<absl::string_view> words = absl::StrSplit(AbslView(error), ' ');
    int named = 0;
    return words.size() != 3 || !absl::SimpleAtoi(words[1], &named) || (slot && named != *slot);
  }
  // Servers put their own name after LOADING.
  if (code == "LOADING") return !error.ends_with(" is loading the dataset in memory");
  // If a call within a script was refused, more follows; the script has written nothing then, because a replica refuses
  // each write of a script or none.
  static constexpr std::string_view kRefusals[] = {
      "NOSCRIPT No matching script",
      "MASTERDOWN Link with MASTER is down",
      "READONLY You can't write against a read only ",
      "READONLY Can not run script with write flag on readonly replica",
      "CLUSTERDOWN The cluster is down",
      "CLUSTERDOWN Hash slot not served",
      "TRYAGAIN Multiple keys request during rehashing of slot",
  };
  bool imitates = false;
  for (const std::string_view refusal : kRefusals) {
    if (error.starts_with(refusal)) return false;
    imitates = imitates || code == ErrorCodeOf(refusal);
  }
  return imitates;
}

}  // namespace redis_internal
}  // namespace stockade
