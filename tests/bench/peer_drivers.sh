#!/usr/bin/env bash
# Processes that want one driver at the same time: one builds it, and the others wait for it.
set -euo pipefail
drivers=$(realpath "$(dirname "$0")/../../scripts/peer-drivers.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir source
echo 1 >source/version
script=source/version
unset STOCKADE_SKIP_INSTALL
. "$drivers"

export builds=$work/builds
build_it() {
  echo built >>"$builds"
  printf '#!/bin/sh\necho ready\n' >driver
  chmod +x driver
}

pids=()
for _ in {1..8}; do
  driver build/it "the driver of this test" build_it --check sh source &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done

[ "$(wc -l <"$builds")" -eq 1 ] || { echo "FAILED: built $(wc -l <"$builds") times, and not once" >&2; exit 1; }
[ -x build/it/driver ] || { echo "FAILED: left out: $(cat build/it/why)" >&2; exit 1; }
