#!/usr/bin/env bash
# installed.sh <our build> <our source> <compiler> <flags>: installs the build's static libraries, moves them, and builds
# against them.
set -euo pipefail
. "$(dirname "$0")/common.sh"

cmake --install "$build" --prefix "$work/staged" >"$work/install.log"
mv "$work/staged" "$work/prefix"
prefix=$work/prefix
if find "$prefix/include" -path '*/src/*' | grep .; then fail "a private header was installed"; fi

# The files that operators need. An alert's link leads to the installed runbook, or to STOCKADE_DOCS_URL.
links() { sed -n 's/^ *runbook_url: //p' "$1/share/stockade/prometheus/rules/alerts.yml"; }
[ "$(links "$prefix" | wc -l)" -ge 18 ] || fail "alerts.yml was not installed"
[ "$(links "$prefix" | grep -cv "^file://$work/staged/share/doc/stockade/RUNBOOK.md#stockade[a-z]*$")" = 0 ] ||
  fail "alerts.yml: $(links "$prefix" | head -n 1)"
[ -e "$prefix/share/doc/stockade/RUNBOOK.md" ] || fail "the runbook was not installed"
! type -P promtool >/dev/null || promtool check config "$prefix/share/stockade/prometheus/prometheus.yml" >"$work/promtool" ||
  fail "prometheus.yml: $(cat "$work/promtool")"
[ -e "$prefix/share/stockade/grafana/dashboards/overview.json" ] || fail "no dashboards"
[ -e "$prefix/share/stockade/fleet_audit.sql" ] || fail "no fleet_audit.sql"
if has ledger_sqlite; then
  ! "$prefix/bin/ledger_audit" "$work/none.db" 2>"$work/audit" || fail "ledger_audit finds nothing wrong in no file"
  grep -q "none.db" "$work/audit" || fail "ledger_audit: $(cat "$work/audit")"
fi

components="cache;inventory;locks_connect"
if has redis; then components+=";redis;cache_redis"; fi
cmake -S "$work/consumer" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" \
  -DCOMPONENTS="$components" -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$work/build"
[ "$("$work/build/consumer")" = "loaded pegasus, 99 left" ] || fail "consumer"
[ "$("$work/build/lock_consumer")" = "held" ] || fail "lock_consumer"
! has redis || [ "$("$work/build/redis_consumer")" = UNAVAILABLE ] || fail "redis_consumer"

# Only a program with a tier pays for what the cache does with one.
nm -C "$work/build/consumer" >"$work/symbols"
grep -q 'SingleFlight::RunLoader' "$work/symbols" || fail "nm"
! grep -q 'TierSide::Ask' "$work/symbols" || fail "a program without a tier links it"
if has redis; then
  nm -C "$work/build/redis_consumer" >"$work/symbols"
  grep -q 'TierSide::Ask' "$work/symbols" || fail "a program with a tier does not link it"
fi

# pkgconf needs seconds where modules require many others.
pkgconfig=$(dirname "$(find "$prefix" -name stockade.pc)")
if grep -rl "^Requires.*absl" "$pkgconfig"; then fail "these modules require Abseil's"; fi
read=$(PKG_CONFIG_PATH=$pkgconfig pkg-config --debug --cflags --libs stockade 2>&1 | grep -oE '[^/ ]+\.pc' | sort -u)
[[ $read == *stockade-base.pc* ]] || fail "pkg-config --debug does not tell what it reads: $read"
[ "$(wc -l <<<"$read")" -le 30 ] || fail "stockade.pc makes pkg-config read too many modules: $read"
for module in "$pkgconfig"/stockade-*_*.pc; do  # Names before 0.2.
  old=$(basename "$module" .pc)
  [ "$(PKG_CONFIG_PATH=$pkgconfig pkg-config --libs "$old")" = \
    "$(PKG_CONFIG_PATH=$pkgconfig pkg-config --libs "${old//_/-}")" ] || fail "$old is not ${old//_/-}"
done

build_with_pkg_config "$prefix" "$work/consumer/locks.cc" "$work/by_pkg_config" stockade-locks-connect
[ "$("$work/by_pkg_config")" = "held" ] || fail "by_pkg_config"

# What was asked for and what that is built on, and no more.
finds "$prefix" "COMPONENTS;inventory"
[[ $said == *" stockade::inventory "* && $said == *" stockade::locks "* && $said != *stockade::cache* ]] || fail "$said"
finds "$prefix" ""
[[ $said == *" stockade::cache "* && $said == *" stockade::locks_connect "* ]] || fail "$said"

refuses "there is no component cash; built were base, metrics, " "$prefix" "COMPONENTS;cache;cash"
finds "$prefix" "COMPONENTS;cache;OPTIONAL_COMPONENTS;cash"
[[ $said == *"there is no component cash"* && $said == *" stockade::cache "* ]] || fail "$said"
refuses "version" "$prefix" "0.1"
refuses "version" "$prefix" "0.3"

# The cache does not need hiredis on the machine.
if has redis; then
  export PKG_CONFIG_LIBDIR=/nowhere PKG_CONFIG_PATH=
  finds "$prefix" "COMPONENTS;cache;inventory"
  refuses "component redis needs hiredis 0.14 or newer" "$prefix" "COMPONENTS;redis"
  refuses "for component locks_redis" "$prefix" "COMPONENTS;locks_redis"
  refuses "for component cache_redis" "$prefix" "COMPONENTS;cache_redis"
  refuses "Name the COMPONENTS that you use" "$prefix" ""
  ! has mysql || refuses "component mysql needs libmariadb 3.3 or newer" "$prefix" "COMPONENTS;locks_mysql"
  unset PKG_CONFIG_LIBDIR PKG_CONFIG_PATH
fi

# A build that lacks something says so, and so does its package.
PKG_CONFIG_LIBDIR=/nowhere cmake -S "$source" -B "$work/poor" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DSTOCKADE_BUILD_TESTS=OFF -DSTOCKADE_BUILD_EXAMPLES=OFF -DCMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON >"$work/poor.log"
cmake "$work/poor" -DSTOCKADE_DOCS_URL=https://shop.example/docs >"$work/poor-url.log"
cmake --install "$work/poor" --component stockade_tools --prefix "$work/tools" >"$work/poor-install.log"
[ "$(links "$work/tools" | grep -cv "^https://shop.example/docs/RUNBOOK.md#")" = 0 ] || fail "$(links "$work/tools")"
grep -q -- "-- stockade::locks_mysql is left out: it needs libmariadb 3.3 or newer" "$work/poor.log" || fail "poor.log"
cp "$work/poor/stockade-config.cmake" "$(find "$prefix" -name stockade-config.cmake)"
finds "$prefix" "COMPONENTS;cache"
refuses "component ledger_sqlite was not built, for want of SQLite 3.37 or newer (Debian: libsqlite3-dev); built were " \
  "$prefix" "COMPONENTS;ledger_sqlite"
