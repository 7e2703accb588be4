#include "stockade/redis/redis_command.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

// "*7\r\n" or "$7\r\n", in `buffer`.
using Header = std::array<char, 24>;
std::string_view HeaderOf(char type, size_t count, Header& buffer) {
  buffer[0] = type;
  char* end = std::to_chars(buffer.data() + 1, buffer.data() + buffer.size() - 2, count).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return {buffer.data(), end};
}

// A bulk string, as every part of a command is sent. Where its text begins.
size_t AppendBulk(std::string& out, std::string_view text) {
  Header buffer;
  const std::string_view header = HeaderOf('$', text.size(), buffer);
  const size_t begin = out.size() + header.size();
  const size_t end = begin + text.size() + 2;
  if (end > out.capacity()) out.reserve(std::max(2 * end, size_t{240}));
  out += header;
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
  transaction.transaction_commands_.reserve(commands.size());
  for (const RedisCommand& command : commands) {
    if (command.has_script()) {
      command.AppendWire({"EVAL", command.script_->source()}, transaction.body_);
    } else {
      command.AppendWire({command.name_}, transaction.body_);
    }
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

void RedisCommand::AppendWire(std::initializer_list<std::string_view> first, std::string& out) const {
  size_t end = out.size() + body_.size() + 16;
  for (const std::string_view part : first) end += part.size() + 16;
  if (end > out.capacity()) out.reserve(out.empty() ? end : 2 * end);
  Header buffer;
  out += HeaderOf('*', first.size() + body_args_, buffer);
  for (const std::string_view part : first) AppendBulk(out, part);
  out += body_;
}

std::string RedisCommand::WireWith(std::initializer_list<std::string_view> first) const {
  std::string wire;
  AppendWire(first, wire);
  return wire;
}

std::string RedisCommand::Wire() const {
  if (is_transaction_) return base_internal::Concat("*1\r\n$5\r\nMULTI\r\n", body_, "*1\r\n$4\r\nEXEC\r\n");
  return script_ ? WireWith({name_, script_->sha1()}) : WireWith({name_});
}

std::string RedisCommand::WholeScriptWire() const { return WireWith({"EVAL", script_->source()}); }

}  // namespace stockade
