#include "ticket_store.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ticket_office {
namespace {

using stockade::RedisCommand;
using stockade::RedisReply;
using stockade::RedisScript;

// KEYS: token, left. ARGV: a token. Nil: refused.
const RedisScript& ReadScript() {
  static const RedisScript& script = *new RedisScript(R"(
    if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return false end
    redis.call('SET', KEYS[1], ARGV[1])
    return redis.call('GET', KEYS[2]))");
  return script;
}

// KEYS: token, left, sold. ARGV: a token, the number that was read. Nil: refused.
const RedisScript& SellScript() {
  static const RedisScript& script = *new RedisScript(R"(
    if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return false end
    redis.call('SET', KEYS[1], ARGV[1])
    redis.call('SET', KEYS[2], ARGV[2] - 1)
    return redis.call('RPUSH', KEYS[3], ARGV[2]))");
  return script;
}

std::string_view FieldOf(Note note) {
  switch (note) {
    case Note::kLockedOut: return "locked_out";
    case Note::kDeletedAnothersLock: return "deleted";
    case Note::kWriteRefused: return "refused";
    case Note::kLossTold: break;
  }
  return "loss_told";
}

absl::Status Refused(int64_t token) {
  return absl::AbortedError(absl::StrCat("the store has seen a larger token than ", token));
}

absl::StatusOr<int64_t> NumberOf(const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return reply.status();
  if (reply->is_nil()) return 0;
  return reply->AsInteger();
}

}  // namespace

TicketStore::TicketStore(stockade::RedisClient* redis, std::string place)
    : redis_(redis),
      place_(std::move(place)),
      left_(place_ + ":left"),
      sold_(place_ + ":sold"),
      token_(place_ + ":token"),
      notes_(place_ + ":notes") {}

absl::Status TicketStore::Run(const RedisCommand& command) { return redis_->Run(command).status(); }

absl::Status TicketStore::Open(int64_t tickets) { return Run(RedisCommand("SET").Key(left_).Arg(tickets)); }

absl::Status TicketStore::Close() {
  return Run(RedisCommand("DEL").Key(left_).Key(sold_).Key(token_).Key(notes_).Key(lock_key()).Idempotent());
}

absl::StatusOr<int64_t> TicketStore::Left(std::optional<int64_t> token) {
  if (!token) return NumberOf(redis_->Run(RedisCommand("GET").Key(left_).Idempotent()));
  absl::StatusOr<RedisReply> left = redis_->Run(RedisCommand(ReadScript(), {token_, left_}).Arg(*token).Idempotent());
  if (left.ok() && left->is_nil()) return Refused(*token);
  return NumberOf(left);
}

absl::Status TicketStore::Sell(int64_t left, std::optional<int64_t> token) {
  if (!token) {
    if (absl::Status written = Run(RedisCommand("SET").Key(left_).Arg(left - 1)); !written.ok()) return written;
    return Run(RedisCommand("RPUSH").Key(sold_).Arg(left));
  }
  absl::StatusOr<RedisReply> sold =
      redis_->Run(RedisCommand(SellScript(), {token_, left_, sold_}).Arg(*token).Arg(left));
  if (sold.ok() && sold->is_nil()) return Refused(*token);
  return sold.status();
}

absl::Status TicketStore::Add(Note note) { return Run(RedisCommand("HINCRBY").Key(notes_).Arg(FieldOf(note)).Arg(1)); }

absl::StatusOr<Figures> TicketStore::Count(int64_t tickets) {
  absl::StatusOr<RedisReply> sold = redis_->Run(RedisCommand("LRANGE").Key(sold_).Arg(0).Arg(-1).Idempotent());
  if (!sold.ok()) return sold.status();
  Figures figures;
  std::vector<int64_t> times(static_cast<size_t>(tickets), 0);
  for (const RedisReply& ticket : sold->elements()) {
    absl::StatusOr<int64_t> number = ticket.AsInteger();
    if (!number.ok()) return number.status();
    if (*number < 1 || *number > tickets) {
      return absl::InternalError(absl::StrCat("ticket ", *number, " was sold, of 1 to ", tickets));
    }
    ++figures.sold;
    if (++times[static_cast<size_t>(*number - 1)] > 1) ++figures.sold_again;
  }
  for (const int64_t count : times) figures.never_sold += count == 0 ? 1 : 0;
  for (const auto& [note, figure] :
       {std::pair{Note::kLockedOut, &figures.locked_out}, std::pair{Note::kDeletedAnothersLock, &figures.deleted},
        std::pair{Note::kWriteRefused, &figures.refused}, std::pair{Note::kLossTold, &figures.losses_told}}) {
    absl::StatusOr<int64_t> noted =
        NumberOf(redis_->Run(RedisCommand("HGET").Key(notes_).Arg(FieldOf(note)).Idempotent()));
    if (!noted.ok()) return noted.status();
    *figure = *noted;
  }
  return figures;
}

}  // namespace ticket_office
