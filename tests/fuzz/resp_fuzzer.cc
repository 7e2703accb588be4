// What a server sends, broken in any way, through ReplyReader: in one piece and in smaller ones, which must tell the
// same. The first byte of an input chooses the size of the pieces, the second the bound.
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "reply_reader.h"
#include "stockade/redis/redis_reply.h"

namespace {

// Of all that comes by operator new: strings and arrays of replies, but not hiredis's buffer, which holds what it was
// fed.
size_t live_bytes = 0;
size_t peak_bytes = 0;

}  // namespace

void* operator new(size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  live_bytes += malloc_usable_size(memory);
  peak_bytes = std::max(peak_bytes, live_bytes);
  return memory;
}

void operator delete(void* memory) noexcept {
  live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace stockade {
namespace {

using redis_internal::ReplyReader;

void Check(bool holds) {
  if (!holds) std::abort();
}

// As ReplyReader counts it. Reads `reply` in every way there is.
size_t CheckedSize(const RedisReply& reply) {
  const RedisReply::Kind kind = reply.kind();
  if (kind != RedisReply::Kind::kInteger && kind != RedisReply::Kind::kString) Check(!reply.AsInteger().ok());
  if (kind == RedisReply::Kind::kInteger) Check(reply.AsInteger().value() == reply.integer());
  const bool has_text =
      kind == RedisReply::Kind::kNil || kind == RedisReply::Kind::kString || kind == RedisReply::Kind::kStatus;
  Check(reply.AsText().ok() == has_text);
  Check(reply.AsArray().ok() == (kind == RedisReply::Kind::kArray));
  Check(!reply.AsArray(reply.elements().size() + 1).ok());
  Check(reply.ToString().size() < 256);
  size_t size = reply.text().size() + reply.elements().size() * sizeof(RedisReply);
  for (const RedisReply& element : reply.elements()) size += CheckedSize(element);
  return size;
}

struct Outcome {
  std::vector<RedisReply> replies = {};
  absl::Status end = {};
};

Outcome Read(std::string_view bytes, size_t piece, size_t max_reply_bytes) {
  ReplyReader reader(max_reply_bytes);
  Outcome outcome;
  size_t live_before = peak_bytes = live_bytes;
  while (outcome.end.ok() && !bytes.empty()) {
    piece = std::min(piece, bytes.size());
    outcome.end = reader.Feed(bytes.substr(0, piece));
    bytes.remove_prefix(piece);
    while (outcome.end.ok()) {
      RedisReply reply;
      const absl::StatusOr<bool> next = reader.Next(reply);
      // An allocation of a few bytes is rounded up; a status has its text.
      Check(peak_bytes - live_before <= 3 * max_reply_bytes + 4096);
      outcome.end = next.status();
      if (!next.ok() || !*next) break;
      Check(CheckedSize(reply) <= max_reply_bytes);
      outcome.replies.push_back(std::move(reply));
      live_before = peak_bytes = live_bytes;
    }
  }
  if (!outcome.end.ok()) {
    RedisReply reply;
    Check(reader.Feed("+OK\r\n") == outcome.end);
    Check(reader.Next(reply).status() == outcome.end);
    Check(absl::IsDataLoss(outcome.end) || absl::IsResourceExhausted(outcome.end));
  }
  return outcome;
}

void CheckPieces(std::string_view bytes, size_t piece, size_t max_reply_bytes) {
  const Outcome whole = Read(bytes, bytes.size(), max_reply_bytes);
  const Outcome pieces = Read(bytes, piece, max_reply_bytes);
  // Half a reply may pass the bound where the whole of it would not: a number with many zeros.
  if (!absl::IsResourceExhausted(pieces.end)) {
    Check(pieces.end == whole.end);
    Check(pieces.replies.size() == whole.replies.size());
  }
  Check(pieces.replies.size() <= whole.replies.size());
  Check(std::equal(pieces.replies.begin(), pieces.replies.end(), whole.replies.begin()));
}

}  // namespace
}  // namespace stockade

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  // hiredis looks for the end of a line from its beginning with each piece, hence not too many.
  const size_t piece = std::max(size_t{data[0]} % 64 + 1, bytes.size() / 256);
  const size_t max_reply_bytes = size_t{16} << (data[1] % 16);
  stockade::CheckPieces(bytes, piece, max_reply_bytes);
  return 0;
}
