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
  [base]='metrics|redis|locks|cache|inventory' [metrics]='redis|locks|cache|inventory'
  [redis]='locks|cache|inventory' [locks]='cache|inventory' [cache]='inventory' [inventory]='cache')
for module in "${!forbidden[@]}"; do
  [ -d "$module" ] || continue
  if grep -rnE "#include [<\"]stockade/(${forbidden[$module]})/" "$module"; then
    echo "lint: $module/ includes from a floor above it, or beside it" >&2
    status=1
  fi
done

for script in run .ci/run scripts/*.sh; do bash -n "$script" || status=1; done

# Libraries and examples some sources at a time, as the preset has them; of each test, and what is tested of bench/, clang's
# own warnings only.
mapfile -t built < <(sed -n 's|^ *"file": "\(.*\)"$|\1|p' build/clang/compile_commands.json | sort -u)
look() { xargs -d '\n' -P "$(nproc)" -n 1 clang-tidy-16 -p build/clang --quiet "$@" 2>>build/clang-tidy.err || status=1; }
: >build/clang-tidy.err
printf '%s\n' "${built[@]}" | grep -vE "^$PWD/(tests|bench)/" | look
printf '%s\n' "${built[@]}" | grep -E "^$PWD/(tests|bench)/" | look --checks='-*,clang-diagnostic-*,readability-duplicate-include'

[ "$status" -eq 0 ] && echo "lint: clean"
exit "$status"
