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
#include <vector>

#include "absl/container/inlined_vector.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_script.h"

namespace stockade {

// One Redis command:
//
//   RedisCommand("SET").Key("stock").Arg(2000).Arg("PX").Arg(30'000)
//   RedisCommand(take_script, {"stock"}).Arg(1)
//
// Keys are passed separately from other arguments because they select the node of a cluster. A command holds its
// encoded bytes and may be sent any number of times. A value type; not thread-safe while it is built.
class STOCKADE_EXPORT RedisCommand {
 public:
  // `name` is a single word. The second word of "CLUSTER INFO" is an argument.
  explicit RedisCommand(std::string_view name);
  // Runs `script` with KEYS; Arg() adds its arguments. The client sends the hash of the script, and its source if the
  // server does not know the hash.
  RedisCommand(const RedisScript& script, std::span<const std::string_view> keys);
  RedisCommand(const RedisScript& script, std::initializer_list<std::string_view> keys)
      : RedisCommand(script, std::span(keys.begin(), keys.size())) {}

  // A transaction: the server runs `commands` one after another, and runs no other client's command in between (MULTI,
  // EXEC). The reply is an array with the reply of each command. A command that fails when it runs has an error as its
  // reply, and the others run all the same. If the server refuses a command before the transaction runs, nothing runs,
  // and the status names the command. RedisClient::RunTransaction() returns the replies with a status each.
  //
  // In a cluster all keys must be in one slot. The transaction is idempotent if all commands are, or if Idempotent() is
  // called for it. It goes to the node of the first key; without keys, of the first RouteBy(). Scripts are sent with
  // their source, because a script that is unknown would be noticed only after other commands have run. MULTI, EXEC,
  // DISCARD, WATCH, QUIT and RESET cannot be part of it (InvalidArgument).
  static RedisCommand Transaction(std::span<const RedisCommand> commands);
  bool is_transaction() const { return is_transaction_; }
  // The names of the commands of a transaction.
  std::span<const std::string> transaction_commands() const { return transaction_commands_; }

  // Appends a key, which may contain any bytes. Not for a transaction (aborts); nor is Arg().
  RedisCommand& Key(std::string_view key) &;
  RedisCommand&& Key(std::string_view key) && { return std::move(Key(key)); }

  // Appends an argument, which may contain any bytes. A number is sent in decimal.
  RedisCommand& Arg(std::string_view arg) &;
  RedisCommand& Arg(std::integral auto arg) & { return Arg(std::string_view(std::to_string(arg))); }
  RedisCommand&& Arg(std::string_view arg) && { return std::move(Arg(arg)); }
  RedisCommand&& Arg(std::integral auto arg) && { return std::move(Arg(arg)); }

  // Sends the command to the node of `key`, which itself is not sent. For commands without keys that are meant for a
  // certain node (WAIT). Ignored if the command has keys.
  RedisCommand& RouteBy(std::string_view key) & {
    route_ = key;
    return *this;
  }
  RedisCommand&& RouteBy(std::string_view key) && { return std::move(RouteBy(key)); }
  // The key that selects the node; none means any node.
  std::optional<std::string_view> routing_key() const {
    return key_count() > 0 ? std::optional(key(0)) : std::optional<std::string_view>(route_);
  }

  // Declares that running the command twice has the same effect as running it once, so that the client may send it
  // again if the reply was lost.
  RedisCommand& Idempotent() & {
    idempotent_ = true;
    return *this;
  }
  RedisCommand&& Idempotent() && { return std::move(Idempotent()); }
  bool idempotent() const { return idempotent_; }

  // The parts of the command. The views are valid until the command is changed or destroyed.
  std::string_view name() const { return name_; }
  size_t key_count() const { return keys_.size(); }
  std::string_view key(size_t at) const { return std::string_view(body_).substr(keys_[at].begin, keys_[at].size); }

  // The encoded command (RESP). A script is sent by its hash (EVALSHA). Of a transaction: all its commands, with MULTI
  // and EXEC around them.
  std::string Wire() const;
  // The encoded command with the script's source (EVAL). Only if has_script().
  std::string WholeScriptWire() const;
  bool has_script() const { return script_.has_value(); }

 private:
  struct Span {
    size_t begin;
    size_t size;
  };

  // The encoded command: `first`, then the arguments.
  void AppendWire(std::initializer_list<std::string_view> first, std::string& out) const;
  std::string WireWith(std::initializer_list<std::string_view> first) const;
  void AbortIfTransaction(std::string_view method) const;

  std::string name_;
  std::optional<RedisScript> script_;
  std::string body_;      // The encoded arguments after the name or the script, or a transaction's commands.
  size_t body_args_ = 0;  // Arguments in body_.
  absl::InlinedVector<Span, 2> keys_;  // Their positions in body_.
  std::optional<std::string> route_;
  bool idempotent_ = false;
  bool is_transaction_ = false;
  std::vector<std::string> transaction_commands_;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_COMMAND_H_
