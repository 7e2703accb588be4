#!/usr/bin/env bash
# shared.sh <our build> <our source> <compiler> <flags>: builds our tree as part of another project, as shared libraries;
# looks at what they show, and installs them where no linker looks by itself. In few translation units, for time.
set -euo pipefail
. "$(dirname "$0")/common.sh"

cmake -S "$work/consumer" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" \
  -DBUILD_SHARED_LIBS=ON -DSTOCKADE_SOURCE_DIR="$source" -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,defs \
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_INSTALL_RPATH="\$ORIGIN" -DSTOCKADE_INSTALL=ON >"$work/configure.log"
cmake --build "$work/build"
[ "$("$work/build/consumer")" = "loaded pegasus, 99 left" ] || fail "consumer"
[ "$("$work/build/lock_consumer")" = "held" ] || fail "lock_consumer"

version=$(sed -n 's/^project(stockade VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
soversion=${version%.*}
readelf -d "$work/build/consumer" | grep -q "NEEDED.*\[libstockade_cache.so.$soversion\]" || fail "NEEDED of consumer"

# Collects all names that are declared with STOCKADE_EXPORT. Every symbol that a library defines must belong to one of
# them, except weak symbols (instances of templates and inline functions).
grep -rhE -A1 'STOCKADE_EXPORT' --include='*.h' --include='*.h.in' "$source"/{base,metrics,redis,mysql,locks,cache,inventory} |
  grep -oE '\w+' | sort -u >"$work/marked"
shown=0
while IFS= read -r library; do
  name=$(basename "$library" ".so.$version")
  readelf -d "$library" | grep -q "SONAME.*\[$name.so.$soversion\]" || fail "SONAME of $library"
  nm -DC --defined-only "$library" | sed -nE 's/^[0-9a-f]+ [^WVu] //p' >"$work/shown"
  shown=$((shown + $(wc -l <"$work/shown")))
  sed -E 's/^((non-)?virtual thunk to |guard variable for )//; s/[([].*//' "$work/shown" | sort -u >"$work/names"
  if grep -v '^stockade::' "$work/names"; then fail "$name shows what is not ours"; fi
  if grep '::Core::' "$work/names"; then fail "$name shows an inventory's machinery"; fi
  # The first name behind the namespaces.
  sed -E 's/^stockade::([a-z_]+_(internal|detail)::)*(\w+).*/\3/' "$work/names" | sort -u |
    comm -23 - "$work/marked" >"$work/unmarked"
  [ ! -s "$work/unmarked" ] || fail "$name shows what is not marked: $(tr '\n' ' ' <"$work/unmarked")"
done < <(find "$work/build" -name "libstockade_*.so.$version")
[ "$shown" -gt 300 ] || fail "only $shown names are shown: were they looked at?"

# In two parts, as distributions want them.
cmake --install "$work/build" --component stockade_runtime --prefix "$work/prefix" >/dev/null
if find "$work/prefix" -not -type d | grep -vE "/libstockade_\w+\.so\.[0-9.]+$"; then fail "that is in the runtime"; fi
cmake --install "$work/build" --component stockade_development --prefix "$work/prefix" >/dev/null

# Programs that link the shared libraries do not need the packages that only these use.
for component in redis mysql; do
  [ -z "$(find "$work/prefix" -name stockade-$component.pc)" ] ||
    PKG_CONFIG_LIBDIR=/nowhere finds "$work/prefix" "COMPONENTS;$component"
done
build_with_pkg_config "$work/prefix" "$work/consumer/locks.cc" "$work/by_pkg_config" stockade-locks-connect
[[ ! $(pkg-config --libs stockade) =~ hiredis|mariadb ]] || fail "stockade.pc asks for a client of a database"
[ "$("$work/by_pkg_config")" = "held" ] || fail "by_pkg_config"

# Tests reach what is hidden.
if cmake -S "$source" -B "$work/tests" -G Ninja -DBUILD_SHARED_LIBS=ON >"$work/tests.log" 2>&1; then
  fail "shared libraries and tests together were to be refused"
fi
tr -s ' \n' ' ' <"$work/tests.log" | grep -q "set -DSTOCKADE_BUILD_TESTS=OFF" || fail "tests.log: $(cat "$work/tests.log")"
