#ifndef STOCKADE_REDIS_REDIS_COMMAND_H_
#define STOCKADE_REDIS_REDIS_COMMAND_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_script.h"

namespace stockade {

// One command for Redis, written as its users say it:
//
//   RedisCommand("SET").Key("stock").Arg(2000).Arg("PX").Arg(30'000)
//   RedisCommand(take_script, {"stock"}).Arg(1)
//
// Keys are named as such, because on a cluster they choose the node. It holds the bytes that will be sent, and may be
// sent any number of times. A value type; not thread-safe while it is built.
class STOCKADE_EXPORT RedisCommand {
 public:
  // `name` in one word: a second one ("CLUSTER", "INFO") is an argument.
  explicit RedisCommand(std::string_view name);
  // Runs `script` with KEYS; arguments follow as Arg(). Sent by the script's hash, and whole where the server does not
  // know it.
  RedisCommand(const RedisScript& script, std::span<const std::string_view> keys);
  RedisCommand(const RedisScript& script, std::initializer_list<std::string_view> keys)
      : RedisCommand(script, std::span(keys.begin(), keys.size())) {}

  // The next key, which may have any bytes.
  RedisCommand& Key(std::string_view key) &;
  RedisCommand&& Key(std::string_view key) && { return std::move(Key(key)); }

  // The next argument, which may have any bytes; a number goes as its decimal digits.
  RedisCommand& Arg(std::string_view arg) &;
  RedisCommand& Arg(std::integral auto arg) & { return Arg(std::string_view(std::to_string(arg))); }
  RedisCommand&& Arg(std::string_view arg) && { return std::move(Arg(arg)); }
  RedisCommand&& Arg(std::integral auto arg) && { return std::move(Arg(arg)); }

  // Sent to the node of `key`, which is not sent itself: for what has no key but is meant for the server that has one
  // (WAIT). Where it has keys, those choose.
  RedisCommand& RouteBy(std::string_view key) & {
    route_ = key;
    return *this;
  }
  RedisCommand&& RouteBy(std::string_view key) && { return std::move(RouteBy(key)); }
  // Nothing: any node.
  std::optional<std::string_view> routing_key() const {
    return key_count() > 0 ? std::optional(key(0)) : std::optional<std::string_view>(route_);
  }

  // Running it twice does what running it once does, so it is sent again where its reply was lost.
  RedisCommand& Idempotent() & {
    idempotent_ = true;
    return *this;
  }
  RedisCommand&& Idempotent() && { return std::move(Idempotent()); }
  bool idempotent() const { return idempotent_; }

  // What it was made of. The views are valid until it is changed or destroyed.
  std::string_view name() const { return name_; }
  size_t key_count() const { return keys_.size(); }
  std::string_view key(size_t at) const { return std::string_view(body_).substr(keys_[at].begin, keys_[at].size); }

  // As sent (RESP). A script: by its hash (EVALSHA).
  std::string Wire() const;
  // A script, whole (EVAL). Only where has_script().
  std::string WholeScriptWire() const;
  bool has_script() const { return script_.has_value(); }

 private:
  struct Span {
    size_t begin;
    size_t size;
  };

  std::string WireWith(std::initializer_list<std::string_view> first) const;

  std::string name_;
  std::optional<RedisScript> script_;
  std::string body_;                   // What follows the name, or the script, encoded.
  size_t body_args_ = 0;               // In body_.
  absl::InlinedVector<Span, 2> keys_;  // Where they stand in body_.
  std::optional<std::string> route_;
  bool idempotent_ = false;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_COMMAND_H_
