#include "stockade/redis/redis_command.h"

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

// A bulk string, as every part of a command is sent. Where its text begins.
size_t AppendBulk(std::string& out, std::string_view text) {
  out += '$';
  out += std::to_string(text.size());
  out += "\r\n";
  const size_t begin = out.size();
  out += text;
  out += "\r\n";
  return begin;
}

}  // namespace

RedisCommand::RedisCommand(std::string_view name) : name_(name) {}

RedisCommand::RedisCommand(const RedisScript& script, std::span<const std::string_view> keys)
    : name_("EVALSHA"), script_(script) {
  Arg(keys.size());
  for (const std::string_view key : keys) Key(key);
}

RedisCommand RedisCommand::Transaction(std::span<const RedisCommand> commands) {
  RedisCommand transaction("MULTI");
  transaction.is_transaction_ = true;
  transaction.idempotent_ = true;
  for (const RedisCommand& command : commands) {
    transaction.body_ += command.has_script() ? command.WholeScriptWire() : command.Wire();
    const size_t begin = transaction.body_.size() - command.body_.size();
    for (const Span& key : command.keys_) transaction.keys_.push_back({.begin = begin + key.begin, .size = key.size});
    if (!transaction.route_) transaction.route_ = command.route_;
    transaction.idempotent_ = transaction.idempotent_ && command.idempotent_;
    transaction.transaction_commands_.push_back(command.name_);
  }
  return transaction;
}

void RedisCommand::AbortIfTransaction(std::string_view method) const {
  if (is_transaction_) base_internal::Fatal(base_internal::Concat("RedisCommand: ", method, "() of a transaction"));
}

RedisCommand& RedisCommand::Key(std::string_view key) & {
  AbortIfTransaction("Key");
  keys_.push_back({.begin = AppendBulk(body_, key), .size = key.size()});
  ++body_args_;
  return *this;
}

RedisCommand& RedisCommand::Arg(std::string_view arg) & {
  AbortIfTransaction("Arg");
  AppendBulk(body_, arg);
  ++body_args_;
  return *this;
}

std::string RedisCommand::WireWith(std::initializer_list<std::string_view> first) const {
  size_t bytes = body_.size() + 16;
  for (const std::string_view part : first) bytes += part.size() + 16;
  std::string wire;
  wire.reserve(bytes);
  wire += '*';
  wire += std::to_string(first.size() + body_args_);
  wire += "\r\n";
  for (const std::string_view part : first) AppendBulk(wire, part);
  wire += body_;
  return wire;
}

std::string RedisCommand::Wire() const {
  if (is_transaction_) return base_internal::Concat("*1\r\n$5\r\nMULTI\r\n", body_, "*1\r\n$4\r\nEXEC\r\n");
  return script_ ? WireWith({name_, script_->sha1()}) : WireWith({name_});
}

std::string RedisCommand::WholeScriptWire() const { return WireWith({"EVAL", script_->source()}); }

}  // namespace stockade
