#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_READING_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_READING_H_

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "stockade/base/export.h"
#include "stockade/base/strings.h"

namespace stockade::mysql_internal {

// A value as the server writes it; NULL is nullopt.
using MySqlCell = std::optional<std::string_view>;

// How the columns of a row become a value of type T: there are kCount of them, and Take() returns how many of them,
// from the first on, are of their types. If these are not all, `into` has no meaning.
template <typename T>
struct MySqlColumns;

// Any number that the type can hold.
template <std::integral T>
  requires(sizeof(T) >= sizeof(int32_t))
struct MySqlColumns<T> {
  static constexpr size_t kCount = 1;
  static size_t Take(std::span<const MySqlCell> cells, T& into) {
    return cells[0].has_value() && absl::SimpleAtoi(AbslView(*cells[0]), &into) ? 1 : 0;
  }
};

// A number that is not 0.
template <>
struct MySqlColumns<bool> {
  static constexpr size_t kCount = 1;
  static size_t Take(std::span<const MySqlCell> cells, bool& into) {
    int64_t number = 0;
    if (MySqlColumns<int64_t>::Take(cells, number) == 0) return 0;
    into = number != 0;
    return 1;
  }
};

template <>
struct MySqlColumns<std::string> {
  static constexpr size_t kCount = 1;
  static size_t Take(std::span<const MySqlCell> cells, std::string& into) {
    if (!cells[0].has_value()) return 0;
    into = *cells[0];
    return 1;
  }
};

// Exactly this number of bytes.
template <size_t Bytes>
struct MySqlColumns<std::array<uint8_t, Bytes>> {
  static constexpr size_t kCount = 1;
  static size_t Take(std::span<const MySqlCell> cells, std::array<uint8_t, Bytes>& into) {
    if (!cells[0].has_value() || cells[0]->size() != Bytes) return 0;
    std::ranges::copy(*cells[0], into.begin());
    return 1;
  }
};

// The columns of the types, one after another.
template <typename... Ts>
struct MySqlColumns<std::tuple<Ts...>> {
  static constexpr size_t kCount = (MySqlColumns<Ts>::kCount + ... + 0);
  static size_t Take(std::span<const MySqlCell> cells, std::tuple<Ts...>& into) {
    size_t taken = 0;
    const auto take = [&]<typename T>(T& value) {
      const size_t now = MySqlColumns<T>::Take(cells.subspan(taken, MySqlColumns<T>::kCount), value);
      taken += now;
      return now == MySqlColumns<T>::kCount;
    };
    std::apply([&](Ts&... values) { (void)(take(values) && ...); }, into);
    return taken;
  }
};

// The columns of T, or NULL in each of them.
template <typename T>
struct MySqlColumns<std::optional<T>> {
  static constexpr size_t kCount = MySqlColumns<T>::kCount;
  static size_t Take(std::span<const MySqlCell> cells, std::optional<T>& into) {
    if (std::ranges::none_of(cells, [](const MySqlCell& cell) { return cell.has_value(); })) {
      into.reset();
      return kCount;
    }
    return MySqlColumns<T>::Take(cells, into.emplace());
  }
};

// Takes the result of a statement that returns rows, and says what it has to be.
struct MySqlSink {
  void* into;
  size_t columns;
  bool is_one_row;  // Exactly one; otherwise any number.
  void (*clear)(void* into);
  size_t (*take)(void* into, std::span<const MySqlCell> cells);
};

template <typename T>
MySqlSink MySqlSinkOf(T& row) {
  return {
      .into = &row,
      .columns = MySqlColumns<T>::kCount,
      .is_one_row = true,
      .clear = [](void*) {},
      .take = [](void* into,
                 std::span<const MySqlCell> cells) { return MySqlColumns<T>::Take(cells, *static_cast<T*>(into)); }};
}
template <typename T>
MySqlSink MySqlSinkOf(std::vector<T>& rows) {
  return {.into = &rows,
          .columns = MySqlColumns<T>::kCount,
          .is_one_row = false,
          .clear = [](void* into) { static_cast<std::vector<T>*>(into)->clear(); },
          .take =
              [](void* into, std::span<const MySqlCell> cells) {
                return MySqlColumns<T>::Take(cells, static_cast<std::vector<T>*>(into)->emplace_back());
              }};
}

// The results of a packet, one for each statement that returns rows, in their order: a vector takes any number of rows,
// anything else exactly one row.
//   std::vector<std::tuple<uint64_t, std::string>> names;
//   int64_t now = 0;
//   connection.Run("SELECT id,name FROM t;SELECT UNIX_TIMESTAMP()", MySqlInto(names, now), deadline);
template <typename... Ts>
std::array<MySqlSink, sizeof...(Ts)> MySqlInto(Ts&... into) {
  return {MySqlSinkOf(into)...};
}

// Checks a reply while it arrives. It must have a result for each statement, of which those with rows have the number
// of columns and the types that their sinks ask for, and no more. The calls are made in the order in which things
// arrive. Each returns false if that is not the reply of the statements; what() then says what is wrong.
class STOCKADE_EXPORT MySqlReading {
 public:
  // The bound of the sum of the values of a reply, with 16 bytes added to each. A larger reply is refused.
  static constexpr size_t kMaxBytes = size_t{512} << 20;

  // `statements` are separated by ';', which occurs nowhere else in them.
  MySqlReading(std::string_view statements, std::span<const MySqlSink> sinks);

  // The next statement has run.
  bool TakeStatement();
  // It returned rows, which follow.
  bool BeginRows(size_t columns);
  bool TakeRow(std::span<const MySqlCell> cells);
  bool EndRows();
  // There are no more results.
  bool End();

  const std::string& what() const { return what_; }

 private:
  template <typename... Pieces>
  bool SetError(const Pieces&... pieces) {
    what_ = Concat("MySQL's reply is not that of the statements: ", pieces...);
    return false;
  }

  const size_t statements_;
  const std::span<const MySqlSink> sinks_;
  size_t ran_ = 0;
  size_t results_ = 0;  // The number of results with rows that have begun.
  size_t rows_ = 0;     // The rows of the last one.
  size_t bytes_ = 0;
  std::string what_;
};

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_READING_H_
