#!/usr/bin/env bash
# Compiles shapes.cc with each compiler that is here, without and with optimisation, and runs it.
# usage: shapes.sh <scratch folder> <compiler> ...
set -euo pipefail
source=$(dirname "$0")/shapes.cc
program=$1/coroutine_shapes
shift
status=0 tried=0
for compiler in "$@"; do
  command -v "$compiler" >/dev/null || continue
  for level in -O0 -O2; do
    tried=$((tried + 1))
    "$compiler" -std=c++20 "$level" -Wall -Wextra -Werror "$source" -o "$program"
    "$program" || { echo "shapes.sh: with $compiler $level" >&2; status=1; }
  done
done
[ "$tried" -gt 0 ] || { echo "shapes.sh: none of these compilers is here: $*" >&2; exit 77; }
exit "$status"
