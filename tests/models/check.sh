#!/usr/bin/env bash
# Explores one model whole, and says whether it ends as it should.
#   check.sh <model.pml> <folder to work in> holds|full|<text of the error> [-D<macro> ...]
# holds: no error, the search was complete, and every line of the model was reached. full: the same for a large search,
# which is skipped unless STOCKADE_TEST_FULL is set. Otherwise the search has to end with an error that has this text,
# for example `invalid end state`.
# SPIN and CC name the tools: CC is any compiler that takes C with `-x c`. TCC may name tcc, which compiles ten times as fast
# for searches that are short.
#
# The result depends only on the model, the macros, the tools and this script. A search that ended as expected leaves a
# file in ${XDG_CACHE_HOME:-~/.cache}/stockade/models, and is not repeated. STOCKADE_NO_CACHE=1 repeats it.
set -euo pipefail

model=$1 folder=$2 expected=$3
shift 3
macros=("$@")
spin=${SPIN:-spin}
read -r -a cc <<<"${CC:-cc}"

if ! command -v "$spin" >/dev/null 2>&1; then
  echo "spin is missing: Debian's package spin"
  if [ -n "${CI:-}" ]; then exit 1; fi
  exit 77
fi

if [ "$expected" = full ] && [ -z "${STOCKADE_TEST_FULL:-}" ]; then
  echo "explored only if STOCKADE_TEST_FULL is set"
  exit 77
fi

fail() {
  [ ! -f pan.log ] || cat pan.log
  # The last steps of the way to the error.
  if compgen -G '*.trail' >/dev/null; then
    "$spin" -P"$preprocess" "${macros[@]}" -p -k ./*.trail "$model" | tail -n 200
  fi
  echo "check.sh: $*, see above and $folder"
  exit 1
}

cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/stockade/models
key=$({ cat "$model" "$0" && "$spin" -V && "${cc[@]}" --version && printf '%s\n' "$expected" "${macros[@]}"; } | sha256sum)
key=${key%% *}
if [ -z "${STOCKADE_NO_CACHE:-}" ] && [ -e "$cache/$key" ]; then
  touch "$cache/$key"  # It is in use.
  echo "explored before: $cache/$key"
  cat "$cache/$key"
  exit 0
fi

succeed() {
  cat result
  { mkdir -p "$cache" && cp result "$cache/$key.$$" && mv "$cache/$key.$$" "$cache/$key" &&
      find "$cache" -type f -mtime +30 -delete; } 2>/dev/null || true
  exit 0
}

model=$(realpath "$model")
name=$(basename "$model")
preprocess="${cc[*]} -E -x c"
mkdir -p "$folder"
cd "$folder"
rm -f pan pan.* ./*.trail spin.log states.log
if ! "$spin" -P"$preprocess" "${macros[@]}" -a "$model" >spin.log 2>&1 || grep -qi error spin.log; then
  cat spin.log
  fail "spin does not accept $name"
fi
# Safety only: assertions and invalid end states. MEMLIM is in megabytes. An error is found soon, so there the compiler
# takes the time. Otherwise the hash table has room for all states. The states of a large search are compressed.
compile=("${cc[@]}" -x c -O1) slots=24
if [ "$expected" = full ]; then expected=holds compile+=(-DCOLLAPSE); fi
if [ "$expected" != holds ]; then
  slots=18
  if [ -n "${TCC:-}" ]; then compile=("$TCC"); else compile=("${cc[@]}" -x c -O0); fi
fi
"${compile[@]}" -w -DSAFETY -DMEMLIM=2000 -o pan pan.c || fail "the verifier does not compile"

# pan's status does not tell one kind of error from another, so its text does.
./pan -m1000000 -w"$slots" >pan.log 2>&1 || true
grep -q '^State-vector .* errors: ' pan.log || fail "the verifier did not run to its end"
if grep -q 'max search depth too small' pan.log; then fail "the search was not deep enough"; fi

if [ "$expected" != holds ]; then
  grep -q "^pan:1: .*$expected" pan.log || fail "$name should have failed with: $expected"
  grep '^pan:1: ' pan.log >result
  succeed
fi
grep -q ' errors: 0$' pan.log || fail "$name does not hold"
if grep -q 'Search not completed' pan.log; then fail "the search was not complete"; fi

# A line of the model as it is, without macros, that is reached in none of its copies (inlines are copied to where they
# are called): what cannot happen shows nothing.
if [ ${#macros[@]} -eq 0 ]; then
  ./pan -d >states.log
  never=$(awk '
    FNR == NR {
      if (/^unreached in /) process = $NF
      if (match($0, /[a-z_]+\.pml:[0-9]+, state +[0-9]+,/) && !/"-end-"/) {
        split(substr($0, RSTART, RLENGTH), at, /[:, ]+/)
        unreached[process, at[4]] = 1
      }
      next
    }
    /^(proctype|init)/ { process = $NF }
    match($0, /[a-z_]+\.pml:[0-9]+ /) && !/-end-/ {
      reached[substr($0, RSTART, RLENGTH - 1)] += ((process, $2) in unreached) ? 0 : 1
    }
    END { for (line in reached) if (reached[line] == 0) print line }' pan.log states.log)
  [ -z "$never" ] || fail "never reached: $never"
fi
grep -E 'states, stored|total actual|elapsed' pan.log >result
succeed
