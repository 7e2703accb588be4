#!/usr/bin/env bash
# check.sh installed|subdirectory <our build> <our source> <compiler> <flags> <with redis>: configures, builds and runs
# consumer/ in a temporary directory, outside our tree.
set -euo pipefail
how=$1 build=$2 source=$3 compiler=$4 flags=$5 with_redis=$6

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$(dirname "$0")/consumer" "$work/consumer"

case "$how" in
  installed)
    cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
    if find "$work/prefix/include" -path '*/src/*' | grep .; then echo "a private header was installed" >&2; exit 1; fi
    options=(-DCMAKE_PREFIX_PATH="$work/prefix")
    ;;
  subdirectory) options=(-DSTOCKADE_SOURCE_DIR="$source") ;;
  *) echo "check.sh: '$how'?" >&2; exit 2 ;;
esac

programs=(consumer)
if [ "$with_redis" = TRUE ]; then programs+=(redis_consumer); fi
if [ "$how" = installed ]; then programs+=(lock_consumer); fi

cmake -S "$work/consumer" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" \
  -DWITH_REDIS="$with_redis" "${options[@]}"
cmake --build "$work/build" --target "${programs[@]}"
output=$("$work/build/consumer")
echo "$output"
[ "$output" = "loaded pegasus, 99 left" ]
[ "$how" != installed ] || [ "$("$work/build/lock_consumer")" = held ]
[ "$with_redis" != TRUE ] || [ "$("$work/build/redis_consumer")" = UNAVAILABLE ]
