# Sourced by the tests of this folder: sets `work`, a temporary directory outside our tree that has a copy of consumer/
# and finder/, and what they are called with.
build=$1 source=$2 compiler=$3 flags=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$(dirname "$0")/consumer" "$(dirname "$0")/finder" "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# ask <prefix> <arguments of find_package, by semicolons> [cmake args]: what CMake says of it, in one line, in $said.
ask() {
  local prefix=$1 arguments=$2
  shift 2
  rm -rf "$work/finder-build"
  local status=0
  said=$(cmake -S "$work/finder" -B "$work/finder-build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$prefix" -DASK="$arguments" "$@" 2>&1) || status=$?
  said=$(tr -s ' \n' ' ' <<<"$said")  # CMake breaks its messages into lines.
  return "$status"
}

# finds <prefix> <arguments>
finds() {
  ask "$@" || fail "find_package(stockade $2): $said"
}

# refuses <why> <prefix> <arguments>
refuses() {
  local why=$1
  shift
  if ask "$@"; then fail "find_package(stockade $2) was to be refused: $why"; fi
  [[ $said == *"$why"* ]] || fail "find_package(stockade $2) was to say '$why': $said"
}

# build_with_pkg_config <prefix> <source> <program> <modules>: by the compiler alone.
build_with_pkg_config() {
  local prefix=$1 file=$2 program=$3 shown
  shift 3
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name stockade.pc)")
  export PKG_CONFIG_PATH
  pkg-config --print-errors --exists stockade || fail "pkg-config does not find all that stockade.pc requires"
  shown=$(pkg-config --cflags --libs "$@")
  # shellcheck disable=SC2086  # Words.
  "$compiler" $flags -std=c++20 "$file" -o "$program" $shown -Wl,-rpath,"$(dirname "$PKG_CONFIG_PATH")"
}

has() {  # <component>: whether our build has it.
  grep -q "^set(_stockade_components .*\b$1\b" "$build/stockade-config.cmake"
}
