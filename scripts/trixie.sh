#!/usr/bin/env bash
# Builds in Debian 13: with g++ 14 as README.md's "Install" says, and its quick starts; with clang 19 the tests of base,
# metrics and cache, which are run. As root, in a chroot of its own, which is kept under
# ${XDG_CACHE_HOME:-~/.cache}/stockade. Ends with status 77 if the mirror of this machine cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "trixie: run as root: debootstrap needs it" >&2; exit 2; }

mirror=$(apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)|$(COMPONENT)' 'Created-By: Packages' |
  sed -n 's/|Debian|main$//p' | grep -v security | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
release=$(mktemp)
trap 'rm -f "$release"' EXIT
if ! /usr/lib/apt/apt-helper download-file "${mirror%/}/dists/trixie/Release" "$release" >/dev/null 2>&1; then
  echo "SKIPPED: trixie: $mirror cannot be reached, or has no Debian 13"
  exit 77
fi

root=${XDG_CACHE_HOME:-$HOME/.cache}/stockade/trixie
if [ ! -e "$root/.complete" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase trixie "$root" "$mirror" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 2; }
  touch "$root/.complete"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
rm -rf "$root/stockade"  # A file that is copied keeps its time, so that an old build would miss a change.
mkdir -p "$root/stockade"
git ls-files -co --exclude-standard -z | xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh |
  tar -c --null -T - | tar -x -C "$root/stockade"

cat >"$root/stockade.sh" <<'TXT'
set -euo pipefail
mount -t proc proc /proc
cd /stockade
export DEBIAN_FRONTEND=noninteractive
scripts/install-deps.sh quickstart
apt-get install -q -y --no-install-recommends clang-19 lld-19 git libgtest-dev libgmock-dev procps python3 >/dev/null
ulimit -n 4096
echo "=== $(. /etc/os-release; echo "$PRETTY_NAME"), $(g++ --version | head -n 1), $(clang++-19 --version | head -n 1)"
echo "=== README.md's Install, with g++, warnings are errors"
cmake --preset release -DSTOCKADE_BUILD_EXAMPLES=OFF -DSTOCKADE_WERROR=ON >/dev/null
cmake --build --preset release >build/trixie-gcc.log || { tail -n 40 build/trixie-gcc.log; exit 1; }
cmake --install build/release >/dev/null
scripts/try-readme --installed
echo "=== the tests of base, metrics and cache, with clang"
cmake --preset dev -B build/trixie-clang -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld-19 \
  -DSTOCKADE_BUILD_EXAMPLES=OFF -DSTOCKADE_WERROR=ON >/dev/null
cmake --build build/trixie-clang --target tests/base/all tests/metrics/all tests/cache/all >build/trixie-clang.log ||
  { grep -E -A8 'error|FAILED' build/trixie-clang.log | head -n 40; exit 1; }
for folder in base metrics cache; do
  ctest --test-dir "build/trixie-clang/tests/$folder" -j "$(nproc)" --output-on-failure --no-tests=error | tail -n 12
done
TXT
unshare --mount --pid --fork chroot "$root" bash /stockade.sh
