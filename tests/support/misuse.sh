#!/usr/bin/env bash
# Compiles each misuse of a source: the compiler refuses it, with one short error that says what is wrong.
# usage: misuse.sh <source> <compiler> [-I<folder>...]
set -euo pipefail
source=$1
shift
longest=25  # Lines; a deep template error has hundreds.

compile() {  # <number>
  "${compiler[@]}" -std=c++20 -fsyntax-only "-DMISUSE=$1" "$source" 2>&1
}

compiler=("$@")
compile 0 || { echo "misuse.sh: what is right does not compile" >&2; exit 1; }
while read -r number expected; do
  if said=$(compile "$number"); then
    echo "misuse.sh: misuse $number compiles" >&2
    exit 1
  fi
  if ! grep -qF "$expected" <<<"$said" || [ "$(grep -c . <<<"$said")" -gt "$longest" ]; then
    echo "misuse.sh: misuse $number: expected an error of at most $longest lines with '$expected', got:" >&2
    head -n 60 <<<"$said" >&2
    exit 1
  fi
done < <(sed -nE 's/^#elif MISUSE == ([0-9]+)  \/\/ EXPECT (.*)$/\1 \2/p' "$source")
