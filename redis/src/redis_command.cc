#include "stockade/redis/redis_command.h"

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

RedisCommand& RedisCommand::Key(std::string_view key) & {
  keys_.push_back({.begin = AppendBulk(body_, key), .size = key.size()});
  ++body_args_;
  return *this;
}

RedisCommand& RedisCommand::Arg(std::string_view arg) & {
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

std::string RedisCommand::Wire() const { return script_ ? WireWith({name_, script_->sha1()}) : WireWith({name_}); }

std::string RedisCommand::WholeScriptWire() const { return WireWith({"EVAL", script_->source()}); }

}  // namespace stockade
