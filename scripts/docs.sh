#!/usr/bin/env bash
# docs.sh <folder>: the API reference, in <folder>/html. Fails on whatever Doxygen warns of: what is public has a comment.
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
mkdir -p "$folder"
{ cat docs/doxygen/Doxyfile; echo "OUTPUT_DIRECTORY = \"$folder\""; } | doxygen -
