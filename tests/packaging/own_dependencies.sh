#!/usr/bin/env bash
# own_dependencies.sh <our build> <our source> <compiler> <flags>: a project whose tree has Abseil, and one that has the
# other dependencies, adds our tree to its own. Nothing of the machine's is taken in their place.
set -euo pipefail
. "$(dirname "$0")/common.sh"

configure() {  # <name> [cmake args]
  local name=$1
  shift
  cmake -S "$work/consumer" -B "$work/$name" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" \
    -DSTOCKADE_SOURCE_DIR="$source" "$@" >"$work/$name.log" 2>&1 || fail "$name: $(cat "$work/$name.log")"
}

configure own -DOWN_DEPENDENCIES=ON -DSTOCKADE_BUILD_TESTS=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_{SQLite3,OpenSSL,ZLIB,GTest,prometheus-cpp,civetweb}=ON -DPKG_CONFIG_EXECUTABLE=/bin/false
for component in redis cache_codecs cache_redis locks_redis ledger_sqlite; do
  ! grep -q "stockade::$component is left out" "$work/own.log" || fail "own.log: $(grep "left out" "$work/own.log")"
done
link=$(ninja -C "$work/own" -t commands redis_consumer | tail -n 1)
for library in hiredis ssl crypto civetweb-cpp prometheus-cpp-core; do
  [[ " $link " == *" -l$library "* ]] || fail "a program with Redis does not link the tree's $library: $link"
done

if ! sources=$("$source/scripts/abseil-source.sh"); then
  echo "SKIPPED: the sources of Debian's Abseil cannot be fetched"
  if [ -n "${CI:-}" ]; then exit 1; fi
  exit 77
fi
for way in add fetch; do
  fetch=OFF
  [ "$way" = add ] || fetch=ON
  configure "$way" -DABSEIL_SOURCE_DIR="$sources" -DFETCH=$fetch -DCMAKE_DISABLE_FIND_PACKAGE_absl=ON \
    -DCMAKE_CXX_FLAGS="$flags -w" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0
done
cmake --build "$work/add" --target base_consumer >"$work/add-build.log" || fail "$(tail -n 30 "$work/add-build.log")"
[ "$("$work/add/base_consumer")" = scheduled ] || fail "base_consumer"
