#!/usr/bin/env bash
# Makes docs/images/flash_sale.png: the page of examples/flash_sale while the Stockade half sells. Takes a minute or
# two, and Chromium and curl (scripts/install-deps.sh test). Look at the picture: a machine that sells faster than
# Chromium starts needs a larger stock.
#   scripts/screenshot-flash-sale.sh [units]
set -euo pipefail
cd "$(dirname "$0")/.."
units=${1:-20000}
program=build/release/examples/flash_sale/flash_sale
picture=docs/images/flash_sale.png
[ -x "$program" ] || { echo "screenshot: build $program first: ./run demo --help" >&2; exit 2; }

work=$(mktemp -d)
"$program" --serve --port 0 --dir "$work/run" --stock "$units" --buyers $((units * 2)) --seconds 6 >"$work/log" &
demo=$!
trap 'kill "$demo" 2>/dev/null; wait "$demo" 2>/dev/null || true; rm -rf "$work"' EXIT
page=""
until [ -n "$page" ]; do
  kill -0 "$demo"
  page=$(sed -n 's/^page: \(http.*\)/\1/p' "$work/log")
  sleep 0.1
done

left() { curl -s "${page}sale" | sed -n 's/.*"shards":\[\([0-9,]*\)\].*/\1/p' | tr ',' '\n' | awk '{ sum += $1 } END { print sum }'; }
until [ "$(left)" -lt $((units * 4 / 5)) ]; do kill -0 "$demo"; sleep 0.05; done
mkdir -p "$(dirname "$picture")"
timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/chromium" --hide-scrollbars \
  --window-size=1280,930 --virtual-time-budget=700 --screenshot="$PWD/$picture" "$page" 2>"$work/chromium.log"
ls -l "$picture"
