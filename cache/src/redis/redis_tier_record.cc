#include "redis_tier_record.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "stockade/base/strings.h"
#include "stockade/redis/internal/sha1_hex.h"

namespace stockade::cache_internal {
namespace {

constexpr char kLayout = 1;

void AppendNumber(std::string& out, uint64_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift & 0xff));
}

uint64_t ReadNumber(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

uint64_t Milliseconds(absl::Duration span) { return static_cast<uint64_t>(absl::ToInt64Milliseconds(span)); }

// Limited, so that sums of the times of a foreign record do not overflow.
absl::Duration FromMilliseconds(uint64_t count) {
  return absl::Milliseconds(static_cast<int64_t>(std::min(count, uint64_t{1} << 53)));
}

}  // namespace

TierKeys::TierKeys(std::string_view prefix) {
  const std::string base = Concat("sc1:{", prefix, "}:");
  state = base + "s";
  journal = base + "j";
  records = base + "v:";
  leases = base + "l:";
  waiters = base + "w:";
  channel = base + "c";
  inboxes = base + "i:";
}

TierEntryKeys::TierEntryKeys(const TierKeys& keys, std::string_view cache, std::string_view codec)
    : records(Concat(keys.records, cache, ":", codec, ":")),
      leases(Concat(keys.leases, cache, ":", codec, ":")),
      waiters(Concat(keys.waiters, cache, ":", codec, ":")) {}

std::string TierEntryKeys::Record(std::string_view key) const { return Concat(records, key); }
std::string TierEntryKeys::Lease(std::string_view key) const { return Concat(leases, key); }
std::array<std::string, 3> TierEntryKeys::Entry(std::string_view key) const {
  return {Record(key), Lease(key), Concat(waiters, key)};
}

TierInvalidation::TierInvalidation(const TierTarget& target) {
  if (target.kind == TierTarget::Kind::kAll) return;
  scope = TierScope::kMemory;
  if (target.text.size() > kMaxTierTextBytes) return;
  scope = target.kind == TierTarget::Kind::kKey ? TierScope::kKey : TierScope::kTag;
  text = target.text;
}

TierTarget::Kind TierKindOf(std::string_view code) {
  if (code == "k") return TierTarget::Kind::kKey;
  return code == "t" ? TierTarget::Kind::kTag : TierTarget::Kind::kAll;
}

bool ReadPosition(std::string_view text, uint64_t& position) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), position);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<TierJournalEntry> ReadTierMessage(std::string_view message, std::string_view incarnation) {
  std::array<std::string_view, 4> words;  // Incarnation, position, kind, cache.
  for (std::string_view& word : words) {
    const size_t end = message.find(' ');
    if (end == std::string_view::npos) return std::nullopt;
    word = message.substr(0, end);
    message.remove_prefix(end + 1);
  }
  TierJournalEntry entry{.cache = words[3], .target = {.kind = TierKindOf(words[2])}};
  if (entry.target.kind != TierTarget::Kind::kAll) entry.target.text = message;
  return ReadPosition(words[1], entry.position) && words[0] == incarnation ? std::optional(entry) : std::nullopt;
}

std::string TierSum(std::string_view sum_before, std::string_view message) {
  return redis_internal::Sha1Hex(base_internal::Concat(sum_before, " ", message)).substr(0, kTierSumDigits);
}

std::optional<TierLeaseName> ReadTierLease(const TierKeys& keys, std::string_view lease) {
  if (!lease.starts_with(keys.leases)) return std::nullopt;
  lease.remove_prefix(keys.leases.size());
  const size_t cache = lease.find(':');
  const size_t codec = cache == std::string_view::npos ? cache : lease.find(':', cache + 1);
  if (codec == std::string_view::npos) return std::nullopt;
  return TierLeaseName{lease.substr(0, cache), lease.substr(cache + 1, codec - cache - 1), lease.substr(codec + 1)};
}

std::string EncodeTierRecord(const TierRecordHead& head, const TierFill& fill, absl::Duration ttl,
                             absl::Duration grace) {
  size_t length = kTierHeadBytes;
  for (const std::string& tag : fill.tags) length += 1 + tag.size();
  std::string out;
  out.reserve(length + fill.bytes.size());
  out.push_back(kLayout);
  out.push_back(fill.absent ? 1 : 0);
  out += head.incarnation;
  AppendNumber(out, head.position, 8);
  out += head.token;
  AppendNumber(out, Milliseconds(grace), 8);
  AppendNumber(out, Milliseconds(ttl), 8);
  const int64_t took =
      std::clamp<int64_t>(absl::ToInt64Microseconds(fill.load_time), 0, std::numeric_limits<uint32_t>::max());
  AppendNumber(out, static_cast<uint64_t>(took), 4);
  AppendNumber(out, length, 2);
  AppendNumber(out, fill.tags.size(), 1);
  for (const std::string& tag : fill.tags) {
    AppendNumber(out, tag.size(), 1);
    out += tag;
  }
  out += fill.bytes;
  return out;
}

std::optional<TierRecord> DecodeTierRecord(std::string_view bytes, absl::Duration left, uint64_t position) {
  if (bytes.size() < kTierHeadBytes || bytes[0] != kLayout) return std::nullopt;
  const size_t length = ReadNumber(bytes.substr(62, 2));
  if (length < kTierHeadBytes || length > bytes.size()) return std::nullopt;
  TierRecord record;
  record.absent = bytes[1] != 0;
  record.position = position;
  record.version = TierVersionOf(bytes.substr(26, kTierTokenBytes));
  record.ttl = FromMilliseconds(ReadNumber(bytes.substr(50, 8)));
  record.left = std::min(left, record.ttl);
  record.load_time = absl::Microseconds(static_cast<int64_t>(ReadNumber(bytes.substr(58, 4))));
  size_t at = kTierHeadBytes;
  for (size_t tags = ReadNumber(bytes.substr(64, 1)); tags > 0; --tags) {
    if (at >= length) return std::nullopt;
    const size_t size = static_cast<unsigned char>(bytes[at]);
    if (at + 1 + size > length) return std::nullopt;
    record.tags.emplace_back(bytes.substr(at + 1, size));
    at += 1 + size;
  }
  record.bytes = bytes.substr(length);
  return record;
}

TierValidity CheckTierRecord(std::string_view bytes, const TierBounds& bounds, absl::Duration life,
                             absl::Duration& left) {
  if (bytes.size() < kTierHeadBytes || bytes[0] != kLayout) return TierValidity::kOther;
  if (ReadNumber(bytes.substr(64, 1)) != 0) return TierValidity::kTagged;
  const uint64_t position = ReadNumber(bytes.substr(18, 8));
  if (bytes.substr(2, kTierIncarnationBytes) != bounds.incarnation) return TierValidity::kOther;
  if (position < bounds.oldest || position > bounds.newest) return TierValidity::kOther;
  const absl::Duration grace = FromMilliseconds(ReadNumber(bytes.substr(42, 8)));
  const absl::Duration ttl = FromMilliseconds(ReadNumber(bytes.substr(50, 8)));
  left = life - grace;
  return life <= ttl + grace && left > absl::ZeroDuration() ? TierValidity::kValid : TierValidity::kOther;
}

uint64_t TierVersionOf(std::string_view token) { return ReadNumber(token.substr(0, 8)); }

std::string TierVersionBytes(uint64_t version) {
  std::string out;
  AppendNumber(out, version, 8);
  return out;
}

TierTokens::TierTokens() {
  std::random_device device;
  std::array<uint32_t, 8> words{};
  for (uint32_t& word : words) word = device();
  std::seed_seq seed(words.begin(), words.end());
  random_.seed(seed);
}

std::string TierTokens::Token() { return Token(random_()); }

std::string TierTokens::LeaseToken(std::string_view inbox) {
  uint64_t owner = 0;
  std::from_chars(inbox.data(), inbox.data() + inbox.size(), owner, 16);
  return Token(owner);
}

std::string TierTokens::Token(uint64_t end) {
  std::string token;
  AppendNumber(token, std::max<uint64_t>(random_(), 1), 8);
  AppendNumber(token, end, 8);
  return token;
}

std::string TierTokens::MarkToken() { return Token().replace(8, 8, "upd mark"); }

std::string TierTokens::InboxId() { return Incarnation().replace(12, 4, "5c1b"); }

std::string TierTokens::Incarnation() { return absl::StrCat(absl::Hex(random_(), absl::kZeroPad16)); }

}  // namespace stockade::cache_internal
