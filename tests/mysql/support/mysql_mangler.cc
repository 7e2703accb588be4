#include "mysql/support/mysql_mangler.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace stockade::testing {
namespace {

using std::string_literals::operator""s;

constexpr uint16_t kMoreResults = 8;
constexpr char kNull = '\xfb';

// A length or a number, and how many bytes it took. None if the bytes end before.
std::optional<std::pair<uint64_t, size_t>> LengthAt(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0xfb) return std::pair<uint64_t, size_t>(first, 1);
  const size_t size = first == 0xfc ? 2 : first == 0xfd ? 3 : 8;
  if (bytes.size() < 1 + size) return std::nullopt;
  uint64_t length = 0;
  for (size_t i = size; i > 0; --i) length = length << 8 | static_cast<uint8_t>(bytes[i]);
  return std::pair(length, 1 + size);
}

std::string Cell(std::string_view text) { return std::string(1, static_cast<char>(text.size())).append(text); }

std::vector<std::string> CellsOf(std::string_view row) {
  std::vector<std::string> cells;
  while (!row.empty()) {
    size_t size = 1;
    if (row[0] != kNull) {
      const auto length = LengthAt(row);
      if (!length) break;
      size = length->second + length->first;
    }
    cells.emplace_back(row.substr(0, size));
    row.remove_prefix(std::min(size, row.size()));
  }
  return cells;
}

bool IsEof(std::string_view payload) { return payload.size() < 9 && !payload.empty() && payload[0] == '\xfe'; }

std::string Flags(uint16_t flags) { return {static_cast<char>(flags & 0xff), static_cast<char>(flags >> 8)}; }

std::string Ok(uint16_t flags) { return "\0\1\0"s + Flags(flags) + "\0\0"s; }

std::string Error(uint16_t number) { return "\xff"s + Flags(number) + "#HY000a lie"; }

}  // namespace

std::string MySqlMangler::operator()(std::string_view from_server) {
  out_.clear();
  if (silent_) return out_;
  arrived_.append(from_server);
  while (arrived_.size() >= 4) {
    const size_t size = static_cast<uint8_t>(arrived_[0]) |
                        static_cast<size_t>(static_cast<uint8_t>(arrived_[1])) << 8 |
                        static_cast<size_t>(static_cast<uint8_t>(arrived_[2])) << 16;
    if (arrived_.size() < 4 + size) break;
    const std::string payload = arrived_.substr(4, size);
    const auto number = static_cast<uint8_t>(arrived_[3]);
    arrived_.erase(0, 4 + size);
    Take(payload, number);
    if (silent_) break;
  }
  return std::exchange(out_, {});
}

void MySqlMangler::Take(const std::string& payload, uint8_t number) {
  if (expects_ == Expects::kGreeting || expects_ == Expects::kLogin) {
    next_number_ = number;
    const bool changes = Chance(shared_.login_per_mille);
    if (changes) ++shared_.changed;
    SendPacket(changes ? Damaged(payload) : payload);
    const bool ended = expects_ == Expects::kLogin && !payload.empty() && payload[0] == '\0';
    expects_ = ended ? Expects::kResult : Expects::kLogin;
    return;
  }
  // A new answer begins with packet 1; its changed results are numbered on.
  if (number == 1 && expects_ == Expects::kResult) next_number_ = 1;
  TakeOfResult(payload);
}

void MySqlMangler::TakeOfResult(const std::string& payload) {
  switch (expects_) {
    case Expects::kGreeting:
    case Expects::kLogin: return;
    case Expects::kResult: {
      result_ = {};
      const auto count = LengthAt(payload);
      if (!count || payload[0] == '\0' || payload[0] == '\xff') {
        result_.plain = payload;
        if (payload[0] == '\0') {  // Behind the rows and the last id.
          const auto rows = LengthAt(std::string_view(payload).substr(1)).value();
          const auto id = LengthAt(std::string_view(payload).substr(1 + rows.second)).value();
          const size_t at = 1 + rows.second + id.second;
          result_.flags = static_cast<uint8_t>(payload[at]);
        }
        return EndResult();
      }
      columns_left_ = count->first;
      expects_ = Expects::kColumn;
      return;
    }
    case Expects::kColumn:
      result_.columns.push_back(payload);
      if (--columns_left_ == 0) expects_ = Expects::kColumnsEnd;
      return;
    case Expects::kColumnsEnd: expects_ = Expects::kRow; return;
    case Expects::kRow:
      if (!payload.empty() && payload[0] == '\xff') {
        result_ = {.plain = payload};
        return EndResult();
      }
      if (!IsEof(payload)) {
        result_.rows.push_back(CellsOf(payload));
        return;
      }
      result_.flags = static_cast<uint8_t>(payload[3]);
      EndResult();
  }
}

void MySqlMangler::EndResult() {
  expects_ = Expects::kResult;
  if (Chance(shared_.per_mille)) {
    ++shared_.changed;
    Mangle(result_);
  } else {
    Send(result_);
  }
}

// Ten ways to lie.
void MySqlMangler::Mangle(Result& result) {
  switch (random_() % 10) {
    case 0: return SendPacket(Ok(result.flags));  // OK without its rows, or another OK.
    case 1: {
      constexpr uint16_t kErrors[] = {1040, 1045, 1048, 1062, 1142, 1146, 1205, 1213, 1290, 1317, 2006, 3101, 4025};
      return SendPacket(Error(kErrors[random_() % std::size(kErrors)]));
    }
    case 2: {  // Twice.
      Result first = result;
      first.flags |= kMoreResults;
      if (first.columns.empty()) first.plain = Ok(first.flags);
      Send(first);
      return Send(result);
    }
    case 3: return;  // Not at all. If more results follow, they come in its place.
    case 4:          // The last one, although more follow, or one of more although none follow.
      result.flags ^= kMoreResults;
      if (result.columns.empty()) result.plain = Ok(result.flags);
      return Send(result);
    case 5: silent_ = true; return;
    case 6: return SendPacket(Damaged(result.columns.empty() ? result.plain : result.columns.front()));
    default: MangleRows(result); return Send(result);
  }
}

void MySqlMangler::MangleRows(Result& result) {
  if (result.columns.empty()) {
    result.plain = Damaged(result.plain);
    return;
  }
  const size_t column = random_() % result.columns.size();
  switch (random_() % 6) {
    case 0:  // Without a column.
      if (result.columns.size() == 1) break;
      result.columns.erase(result.columns.begin() + static_cast<ptrdiff_t>(column));
      for (Cells& row : result.rows) row.erase(row.begin() + static_cast<ptrdiff_t>(column));
      return;
    case 1:  // With one more.
      result.columns.push_back(result.columns[column]);
      for (Cells& row : result.rows) row.push_back(row[column]);
      return;
    case 2: result.rows.clear(); return;
    case 3:
      if (!result.rows.empty()) result.rows.push_back(result.rows.front());
      return;
    case 4:  // A row of another length than that of the columns.
      if (!result.rows.empty()) result.rows.front().resize(random_() % (result.columns.size() + 2), Cell("1"));
      return;
    default: break;
  }
  for (Cells& row : result.rows) row[column] = OtherCell();
}

std::string MySqlMangler::OtherCell() {
  switch (random_() % 8) {
    case 0: return std::string(1, kNull);
    case 1: return Cell("");
    case 2: return Cell("-1");
    case 3: return Cell("9223372036854775807");
    case 4: return Cell("-9223372036854775808");
    case 5: return Cell("7x");
    case 6: return Cell(std::to_string(random_() % 20));
    default: return Cell(std::string(random_() % 40, static_cast<char>(random_())));
  }
}

void MySqlMangler::Send(const Result& result) {
  if (result.columns.empty()) return SendPacket(result.plain);
  SendPacket(std::string(1, static_cast<char>(result.columns.size())));
  for (const std::string& column : result.columns) SendPacket(column);
  SendPacket("\xfe\0\0"s + Flags(result.flags));
  for (const Cells& row : result.rows) {
    std::string packet;
    for (const std::string& cell : row) packet += cell;
    SendPacket(packet);
  }
  SendPacket("\xfe\0\0"s + Flags(result.flags));
}

void MySqlMangler::SendPacket(std::string payload) {
  for (const size_t shift : {0, 8, 16}) out_.push_back(static_cast<char>(payload.size() >> shift & 0xff));
  out_.push_back(static_cast<char>(next_number_++));
  out_ += payload;
}

// Cut, longer, or with other bytes.
std::string MySqlMangler::Damaged(std::string payload) {
  if (payload.empty()) return payload;
  switch (random_() % 3) {
    case 0: payload.resize(random_() % payload.size()); break;
    case 1: payload.append(random_() % 64, static_cast<char>(random_())); break;
    default:
      for (size_t n = random_() % 4 + 1; n > 0; --n) payload[random_() % payload.size()] = static_cast<char>(random_());
  }
  return payload;
}

}  // namespace stockade::testing
