#!/usr/bin/env bash
# api_reference.sh <our source> <folder>: Doxygen has nothing to warn of, and what it makes has what it should. Skipped
# without Doxygen; failed where CI is set.
set -euo pipefail
source=$1 folder=$2
for program in doxygen python3; do
  command -v "$program" >/dev/null && continue
  if [ -n "${CI:-}" ]; then echo "$program is missing, in CI" >&2; exit 1; fi
  echo "$program is missing: Debian's package $program"
  exit 77
done

rm -rf "$folder"
"$source/scripts/docs.sh" "$folder"
for class in LoadingCache LockService Inventory RedisClient MetricsRegistry; do
  [ -s "$folder/html/classstockade_1_1$class.html" ] || { echo "no page of $class" >&2; exit 1; }
done
grep -q LibraryVersion "$folder/html/namespacestockade.html"
if grep -rlE 'stockade::[a-z]*_internal' "$folder/html" --include='classstockade_1_1*__internal*'; then exit 1; fi
