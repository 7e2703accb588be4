#!/usr/bin/env bash
# Builds Debian's Abseil, from its source package, with ThreadSanitizer, and prints the prefix it was installed to.
# Debian's own build gives false reports. Kept outside the tree, under ${XDG_CACHE_HOME:-~/.cache}/stockade, by version
# and compiler, so that it is built once a machine.
set -euo pipefail

jobs=${STOCKADE_JOBS:-$(nproc)}
version=$(dpkg-query -W -f '${source:Version}' libabsl-dev)
compiler=${CXX:-g++}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stockade
name=abseil-tsan-$version-$(basename "$compiler")-$("$compiler" -dumpversion)-$(uname -m)
prefix=$cache/$name
if [ -e "$prefix/.complete" ]; then
  echo "$prefix"
  exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/$name.lock"
flock 9
[ ! -e "$prefix/.complete" ] || { echo "$prefix"; exit 0; }

work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
log=$work/log
fail() { echo "build-tsan-abseil: $1:" >&2; tail -n 30 "$log" >&2; exit 2; }

tree=$("$(dirname "$0")/abseil-source.sh")
cmake -S "$tree" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE= \
    -DCMAKE_CXX_FLAGS="-fsanitize=thread -fno-omit-frame-pointer -O1 -g1 -DNDEBUG -w" -DCMAKE_CXX_STANDARD=20 \
    -DABSL_PROPAGATE_CXX_STD=ON -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX="$prefix" >>"$log" 2>&1 || fail "cmake failed"
cmake --build "$work/build" -j "$jobs" >>"$log" 2>&1 || fail "the build failed"
cmake --install "$work/build" >>"$log" 2>&1 || fail "the installation failed"
touch "$prefix/.complete"
echo "$prefix"
