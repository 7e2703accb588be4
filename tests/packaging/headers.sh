#!/usr/bin/env bash
# headers.sh <our build> <our source> <compiler> <flags>: no public header has a warning, each can be included alone,
# and each says in its first error if the compiler's options do not fit.
set -euo pipefail
. "$(dirname "$0")/common.sh"

include=(-I"$build/base/include")
headers=(stockade/version.h)
for module in base metrics redis mysql locks cache inventory asio; do
  include+=(-I"$source/$module/include")
  mapfile -t -O "${#headers[@]}" headers < <(cd "$source/$module/include" && find stockade -name '*.h' | sort)
done
[ "${#headers[@]}" -gt 100 ] || fail "only ${#headers[@]} headers were found"

# All in one translation unit, and the templates' bodies too.
printf '#include "%s"\n' "${headers[@]}" >"$work/all.cc"
cat >>"$work/all.cc" <<'TXT'
template class stockade::LoadingCache<std::string, std::string>;
template class stockade::KeyedMutex<std::string>;
template class stockade::KeyedSharedMutex<std::string>;
TXT
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Werror)
check() {  # <compiler> <source>
  local more=()
  [[ $1 != *g++* || $1 = *clang* ]] || more=(-Wuseless-cast)
  "$1" -std=c++20 -fsyntax-only "${warnings[@]}" "${more[@]}" "${include[@]}" -x c++ "$2" ||
    fail "$2 does not compile without a warning by $1"
}
compilers=("$compiler")
! type -P clang++-16 >/dev/null || compilers+=(clang++-16)
for each in "${compilers[@]}"; do
  for file in "$work/all.cc" "$source"/examples/quickstart/*.cc; do check "$each" "$file"; done
done

# Alone, those that users include. Which header is missing in another one does not depend on the compiler, so that one of
# them, the faster one, suffices by default.
mapfile -t alone < <(printf '%s\n' "${headers[@]}" | grep -v /internal/)
[ -n "${STOCKADE_TEST_FULL:-}" ] || compilers=("${compilers[-1]}")
mkdir "$work/alone"
for header in "${alone[@]}"; do echo "#include \"$header\"" >"$work/alone/${header//\//_}.cc"; done
export -f check fail
export work
for each in "${compilers[@]}"; do
  printf '%s\0' "$work"/alone/*.cc | xargs -0 -P "$(nproc)" -I '{}' bash -c "$(declare -p include warnings); check $each {}"
done

# say <message> <flag> <header>...: each says so first, and the compilation ends. By the preprocessor alone, for time.
say() {
  local message=$1 flag=$2 header said
  shift 2
  for header; do
    if said=$("$compiler" -std=c++20 "$flag" "${include[@]}" -E -x c++ -o /dev/null - <<<"#include \"$header\"" 2>&1); then
      fail "$header takes $flag"
    fi
    grep -m1 ' error: ' <<<"$said" | grep -qF "#error \"$message" || fail "$header, $flag: '$message' is not first: $said"
    [ "$(grep -c ' error: ' <<<"$said")" = 2 ] || fail "$header, $flag: has more to say than '$message': $said"
  done
}
say "Stockade needs C++20" -std=c++17 "${headers[@]}"
say "Stockade needs exceptions" -fno-exceptions stockade/version.h  # In the same place.
