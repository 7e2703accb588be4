#!/usr/bin/env bash
# Installs what is missing of Debian's packages for the named jobs, and nothing else:
#   scripts/install-deps.sh JOB ...   such as demo, tutorial, test or test/FOLDER: `packages` below has all of them
# bench-peers is what bench/peers/build takes, and the tests that fetch packages: tests/interop, the axe check of the
# page, the schema of the dashboards. It is installed only when it is named, and programs that are there from elsewhere
# than Debian are left alone.
# Runs as root or through sudo, asks no question, and starts no service. Where apt is not there it lists what is
# needed and stops with status 2.
set -euo pipefail

build="g++ cmake ninja-build pkg-config libabsl-dev prometheus-cpp-dev libsqlite3-dev libhiredis-dev
       libmariadb-dev libssl-dev libzookeeper-mt-dev zlib1g-dev libcpp-httplib-dev nlohmann-json3-dev"
tests="$build libgtest-dev libgmock-dev clang-16 lld-16 libclang-rt-16-dev llvm-16 git procps python3"
network="iproute2 nftables"
redis="redis-server redis-sentinel openssl prometheus $network"
servers="$redis mariadb-server zookeeper"
declare -A packages=(
  [demo]="$build"
  [demo-fleet]="$build mariadb-server redis-server"
  [quickstart]="$build curl redis-server"
  [tutorial]="$build curl prometheus sqlite3"
  [tutorial-asio]="$build libasio-dev redis-server"
  [tutorial-fleet]="$build mariadb-server redis-server"
  [test]="$tests $servers chromium curl doxygen dpkg-dev libasio-dev libbenchmark-dev libboost-dev spin sqlite3 tcc"
  # Of one folder of tests/; of a folder that is not here: test.
  [test/asio]="$tests libasio-dev libboost-dev"
  [test/base]="$tests"
  [test/cache]="$tests $redis"
  [test/fuzz]="$tests"
  [test/inventory]="$tests $redis mariadb-server sqlite3"
  [test/locks]="$tests $servers"
  [test/metrics]="$tests curl prometheus"
  [test/mysql]="$tests mariadb-server openssl"
  [test/redis]="$tests $redis"
  [test/zookeeper]="$tests zookeeper"
  [bench]="$build redis-server libbenchmark-dev libtbb-dev libnsync-dev libboost-thread-dev postgresql mariadb-server libpq-dev
         openssl python3 valgrind zookeeper libzookeeper-mt-dev"
  [bench-peers]=""
  [lint]="$build libasio-dev libgtest-dev libgmock-dev clang-16 clang-tidy-16 clang-format-16 python3"
  [tsan]="$build libasio-dev libgtest-dev libgmock-dev dpkg-dev lld"
  [docs]="doxygen python3"
  [cache-walk]="$build gdb python3 redis-server"
  [trixie]="apt debootstrap git tar util-linux"
)

# A second clang for the test of what compilers make of coroutines.
if apt-cache show clang-19 >/dev/null 2>&1; then packages[test]+=" clang-19"; fi

# A JDK, a Go, a Rust or a Node.js of the user's own, by whatever installer, does as well. Debian 12's plain rustc is too
# old for moka, and its golang for the peers in Go, which are then left out.
command -v javac >/dev/null 2>&1 || packages[bench-peers]+=" default-jdk-headless"
command -v mvn >/dev/null 2>&1 || packages[bench-peers]+=" maven"
command -v go >/dev/null 2>&1 || [ -x /usr/local/go/bin/go ] || packages[bench-peers]+=" golang"
command -v cargo >/dev/null 2>&1 || packages[bench-peers]+=" cargo-web rustc-web gcc libc6-dev"
command -v npm >/dev/null 2>&1 || packages[bench-peers]+=" nodejs npm"

wanted=""
for job in "$@"; do
  [[ $job != test/* || -n "${packages[$job]+known}" ]] || job=test
  [ -n "${packages[$job]+known}" ] || { echo "install-deps: no job '$job' (jobs: ${!packages[*]})" >&2; exit 2; }
  wanted="$wanted ${packages[$job]}"
done

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
  # On other systems, users that have these packages under other names can continue: the build says what is missing.
  [ -n "${STOCKADE_SKIP_INSTALL:-}" ] && exit 0
  echo "install-deps: apt-get is missing. Install these packages (Debian 12 names), then set STOCKADE_SKIP_INSTALL=1:" >&2
  printf '  %s\n' $wanted | sort -u >&2
  exit 2
fi

missing=""
for package in $(printf '%s\n' $wanted | sort -u); do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ -n "${STOCKADE_SKIP_INSTALL:-}" ]; then
  echo "install-deps: STOCKADE_SKIP_INSTALL is set; not installed:$missing" >&2
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "install-deps: run as root or install sudo; missing:$missing" >&2; exit 2; }
  sudo -n true 2>/dev/null || {
    echo "install-deps: sudo needs a password; run once: sudo scripts/install-deps.sh $*; missing:$missing" >&2
    exit 2
  }
  as_root=(sudo -n)
fi

# A policy-rc.d that forbids starts keeps the servers' packages from starting services of their own: the tests start
# what they need on free ports. A policy that is already there is left alone.
policy=/usr/sbin/policy-rc.d
cleanup() { :; }
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
  cleanup() { "${as_root[@]}" rm -f "$policy"; }
fi
trap 'cleanup' EXIT

log=$(mktemp)
echo "install-deps: installing$missing"
start=$SECONDS
if ! { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
     } >"$log" 2>&1; then
  echo "install-deps: apt-get failed:" >&2
  tail -n 20 "$log" >&2
  rm -f "$log"
  exit 2
fi
rm -f "$log"
echo "install-deps: installed in $((SECONDS - start)) s"
