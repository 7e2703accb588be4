#ifndef STOCKADE_BASE_STRINGS_H_
#define STOCKADE_BASE_STRINGS_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// Debian's Abseil has its own string_view; other builds use std::string_view. This compiles with both.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

template <typename T>
decltype(auto) AbslPiece(const T& piece) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return AbslView(piece);
  } else {
    return (piece);
  }
}

// absl::StrCat that also accepts std::string_view.
template <typename... Pieces>
std::string Concat(const Pieces&... pieces) {
  return absl::StrCat(AbslPiece(pieces)...);
}

// absl::StrAppend, likewise.
template <typename... Pieces>
void Append(std::string& to, const Pieces&... pieces) {
  absl::StrAppend(&to, AbslPiece(pieces)...);
}

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_STRINGS_H_
