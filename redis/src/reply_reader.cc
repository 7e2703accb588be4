#include "reply_reader.h"

#include <hiredis.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

// Of what is no string: a status, an error, a number. Redis's own are shorter; an error of a script may have any
// length.
constexpr size_t kMaxLineBytes = size_t{1} << 20;

// The element that hiredis is at; it is within a reply. hiredis 1.0 made an array of pointers of the array.
template <typename Reader>
const redisReadTask& CurrentTask(const Reader& reader) {
  if constexpr (requires { reader.rstack; }) {
    return reader.rstack[reader.ridx];
  } else {
    return *reader.task[reader.ridx];
  }
}

}  // namespace

// The functions that hiredis calls while it parses. A reply is built in its final place: the elements of an array have
// their places before they arrive. It is a template because hiredis 1.0 widened a count.
struct ReplyReader::Builder {
  static constexpr int kMaxDepth = 8;

  RedisReply root = {};
  size_t max_bytes;
  size_t bytes = 0;  // Of root, so far.
  bool too_large = false;

  static Builder& Of(const redisReadTask* task) { return *static_cast<Builder*>(task->privdata); }

  // Null, which hiredis takes for a lack of memory, where the reply becomes too large, or too deep for what walks it by
  // recursion; hiredis itself has a bound only before 1.0.
  static RedisReply* Place(const redisReadTask* task, size_t size) {
    Builder& builder = Of(task);
    int depth = 0;
    for (const redisReadTask* at = task->parent; at != nullptr && depth <= kMaxDepth; at = at->parent) ++depth;
    if (depth > kMaxDepth) return nullptr;
    if (size > builder.max_bytes - builder.bytes) {
      builder.too_large = true;
      return nullptr;
    }
    builder.bytes += size;
    return task->parent == nullptr
               ? &builder.root
               : &static_cast<RedisReply*>(task->parent->obj)->elements_[static_cast<size_t>(task->idx)];
  }

  static void* CreateString(const redisReadTask* task, char* text, size_t size) {
    RedisReply* place = Place(task, size);
    if (place == nullptr) return nullptr;
    place->kind_ = task->type == REDIS_REPLY_STATUS  ? RedisReply::Kind::kStatus
                   : task->type == REDIS_REPLY_ERROR ? RedisReply::Kind::kError
                                                     : RedisReply::Kind::kString;
    place->text_.assign(text, size);
    return place;
  }
  template <typename Count>
  static void* CreateArray(const redisReadTask* task, Count count) {
    const auto elements = static_cast<size_t>(count);
    if (elements > Of(task).max_bytes / sizeof(RedisReply)) {
      Of(task).too_large = true;
      return nullptr;
    }
    RedisReply* place = Place(task, elements * sizeof(RedisReply));
    if (place == nullptr) return nullptr;
    place->kind_ = RedisReply::Kind::kArray;
    place->elements_.resize(elements);
    return place;
  }
  static void* CreateInteger(const redisReadTask* task, long long value) {
    RedisReply* place = Place(task, 0);
    if (place == nullptr) return nullptr;
    place->kind_ = RedisReply::Kind::kInteger;
    place->integer_ = value;
    return place;
  }
  static void* CreateNil(const redisReadTask* task) { return Place(task, 0); }
  static void Free(void*) {}  // It is the root's, which the next reply replaces.
};

ReplyReader::ReplyReader(size_t max_reply_bytes)
    : max_reply_bytes_(max_reply_bytes), builder_(new Builder{.max_bytes = max_reply_bytes}) {
  static redisReplyObjectFunctions functions = [] {
    redisReplyObjectFunctions made = {};
    made.createString = &Builder::CreateString;
    made.createArray = &Builder::CreateArray;
    made.createInteger = &Builder::CreateInteger;
    made.createNil = &Builder::CreateNil;
    made.freeObject = &Builder::Free;
    return made;
  }();
  reader_ = redisReaderCreateWithFunctions(&functions);
  if (reader_ == nullptr) Fatal("redis: no memory for a reply reader");
  reader_->privdata = builder_.get();
}

ReplyReader::~ReplyReader() { redisReaderFree(reader_); }

absl::Status ReplyReader::TooLarge() {
  return error_ = absl::ResourceExhaustedError(
             Concat("redis: a reply is larger than max_reply_bytes (", max_reply_bytes_, ")"));
}

absl::Status ReplyReader::Broken() {
  if (builder_->too_large) return TooLarge();
  return error_ = absl::DataLossError(Concat("redis: a broken reply: ", reader_->errstr));
}

absl::Status ReplyReader::Feed(std::string_view bytes) {
  if (!error_.ok()) return error_;
  if (redisReaderFeed(reader_, bytes.data(), bytes.size()) != REDIS_OK) return Broken();
  return absl::OkStatus();
}

// hiredis reports a string once all of it is there; until then it stands at the string's length.
bool ReplyReader::BeginsTooLargeString() const {
  if (reader_->ridx < 0 || CurrentTask(*reader_).type != REDIS_REPLY_STRING) return false;
  constexpr size_t kMostDigits = 32;
  const std::string_view waiting(reader_->buf + reader_->pos, reader_->len - reader_->pos);
  const std::string_view length = waiting.substr(0, std::min(waiting.find('\r'), kMostDigits));
  if (length.size() == waiting.size()) return false;  // Its end is not there yet.
  int64_t bytes = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
  return error == std::errc() && bytes > 0 && static_cast<size_t>(bytes) > builder_->max_bytes - builder_->bytes;
}

bool ReplyReader::HasUnread() const {
  // A reply is begun with the first look for it, and has a type once its first byte is there.
  const bool within_reply = reader_->ridx > 0 || (reader_->ridx == 0 && CurrentTask(*reader_).type >= 0);
  return within_reply || reader_->pos < reader_->len;
}

absl::StatusOr<bool> ReplyReader::Next(RedisReply& reply) {
  if (!error_.ok()) return error_;
  void* object = nullptr;
  if (redisReaderGetReply(reader_, &object) != REDIS_OK) return Broken();
  if (object == nullptr) {
    // What waits is part of one reply: replies before it have been taken. An element that is not all there yet is in no
    // builder's count.
    const size_t waiting = reader_->len - reader_->pos;
    if (waiting > max_reply_bytes_ || BeginsTooLargeString()) return TooLarge();
    // hiredis looks through a line from its beginning each time until its end is there.
    if (waiting > kMaxLineBytes && std::memchr(reader_->buf + reader_->pos, '\n', kMaxLineBytes) == nullptr) {
      return error_ =
                 absl::DataLossError(Concat("redis: a broken reply: a line of more than ", kMaxLineBytes, " bytes"));
    }
    return false;
  }
  reply = std::exchange(builder_->root, {});
  builder_->bytes = 0;
  return true;
}

}  // namespace stockade::redis_internal
