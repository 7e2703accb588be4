#!/usr/bin/env bash
# What a machine can find fault with: format, the order of floors, clang's warnings and thread-safety analysis, clang-tidy.
# `./run lint` has configured the clang preset.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0

mapfile -t sources < <(git ls-files -co --exclude-standard '*.h' '*.cc')
clang-format-16 --dry-run -Werror "${sources[@]}" || { echo "lint: run clang-format-16 -i on the above" >&2; status=1; }

# Letters of other alphabets that look like ours: clang-tidy's check for them takes a fifth of its time.
if printf '%s\n' "${sources[@]}" | grep -vE '^(tests|bench)/' | xargs grep -nP '[^\x00-\x7F]'; then
  echo "lint: the library's sources are ASCII" >&2
  status=1
fi

# An include never goes up a floor, and cache and inventory never include each other.
declare -A forbidden=(
  [base]='metrics|redis|mysql|locks|cache|inventory|asio' [metrics]='redis|mysql|locks|cache|inventory|asio'
  [redis]='mysql|locks|cache|inventory|asio' [mysql]='redis|locks|cache|inventory|asio'
  [locks]='cache|inventory|asio' [cache]='inventory|asio' [inventory]='cache|asio')
for module in "${!forbidden[@]}"; do
  [ -d "$module" ] || continue
  if grep -rnE "#include [<\"]stockade/(${forbidden[$module]})/" "$module"; then
    echo "lint: $module/ includes a header of a higher or a sibling module" >&2
    status=1
  fi
done

if grep -rn '#include ".*engines/' locks/src/core locks/src/service; then
  echo "lint: the lock service knows no engine" >&2
  status=1
fi

# Phrases that readers have to read twice.
scripts/check-english || status=1
scripts/check-coroutines || status=1

for script in run .ci/run scripts/*.sh; do bash -n "$script" || status=1; done

# A header that is included twice in one file: clang-tidy reads only the libraries and examples.
if ! printf '%s\n' "${sources[@]}" | xargs awk '
    FNR == 1 { delete seen }
    /^#(if|else|elif|endif)/ { delete seen }
    /^#include/ && seen[$2]++ { print FILENAME ":" FNR ": " $2 " is included twice"; found = 1 }
    END { exit found }'; then
  status=1
fi

# That the thread-safety analysis notices when a lock is missing, and that the list of what it does not see is complete.
tests/thread_safety/mutate.py || status=1

# The libraries and examples by clang-tidy, examples and benchmarks by g++, which `run` builds them with. The tests are
# compiled by clang with the same warnings and -Wthread-safety in the dev preset.
scripts/tidy || status=1

[ "$status" -eq 0 ] && echo "lint: clean"
exit "$status"
