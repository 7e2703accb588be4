#!/usr/bin/env bash
# Runs a database server as a peer of bench_ledger, for as long as the bench runs.
#
#   serve_database.sh postgres|mariadb check     prints "here", or why it cannot be run
#   serve_database.sh postgres|mariadb FOLDER    serves with its data in FOLDER, an empty one
#
# Prints "ready SOCKETS", the folder of its socket, once it answers. At the line "stop", or at the end of the standard
# input, when the bench is gone however it ended, it stops the server, removes both folders and prints "stopped".
#
# What is acknowledged is on the disk, as with the ledger: every commit waits for its fsync, and torn pages are guarded
# against. Otherwise the server has what a busy shop would give it: memory, and a log that needs no checkpoint while
# it is measured.
set -euo pipefail
kind=$1
folder=$2

postgres_bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
PATH=$PATH${postgres_bin:+:$postgres_bin}:/usr/sbin

# Both refuse to run as root, and have a user from their packages then.
declare -A users=([postgres]=postgres [mariadb]=mysql)
declare -A programs=([postgres]="initdb postgres pg_isready setpriv" [mariadb]="mariadb-install-db mariadbd mariadb-admin setpriv")
declare -A packages=([postgres]=postgresql [mariadb]=mariadb-server)
user=${users[$kind]}

if [ "$folder" = check ]; then
  for program in ${programs[$kind]}; do
    command -v "$program" >/dev/null || { echo "there is no $program (Debian: ${packages[$kind]})"; exit; }
  done
  [ "$(id -u)" -ne 0 ] || id "$user" >/dev/null 2>&1 || { echo "it does not run as root, and there is no user $user"; exit; }
  echo here
  exit
fi

as_user=(setpriv)
sockets=$(mktemp -d /tmp/stockade-bench.XXXXXX)  # A socket's name is at most 107 characters; the folder's may be longer.
log=$folder/log
server=""
finish() {
  [ -z "$server" ] || { kill -INT "$server" 2>/dev/null; kill -TERM "$server" 2>/dev/null; wait "$server"; } || true
  rm -rf -- "$folder" "$sockets" || true
} >/dev/null 2>&1
fail() {
  echo "$1: $(tail -n 3 "$log" 2>/dev/null | tr '\n' ' ')"
  exit
}
trap finish EXIT
trap '' INT TERM HUP  # Meant for the bench, whose end is seen by the end of the input.

: >"$log"
if [ "$(id -u)" -eq 0 ]; then
  as_user+=("--reuid=$user" "--regid=$(id -gn "$user")" --init-groups)
  chown -R "$user" "$folder" "$sockets"
fi
export HOME=$folder
cd /

# serve <command...>: dies with this script, should that be killed.
serve() {
  "${as_user[@]}" --pdeathsig QUIT -- "$@" >>"$log" 2>&1 </dev/null &
  server=$!
}

case $kind in
  postgres)
    "${as_user[@]}" initdb -D "$folder/data" -U bench -A trust -E UTF8 --no-locale --no-sync >>"$log" 2>&1 ||
      fail "initdb failed"
    serve postgres -D "$folder/data" -k "$sockets" -c listen_addresses= -c fsync=on -c synchronous_commit=on \
      -c full_page_writes=on -c wal_level=minimal -c max_wal_senders=0 -c shared_buffers=512MB -c max_wal_size=8GB
    answers() { pg_isready -q -h "$sockets"; }
    ;;
  mariadb)
    "${as_user[@]}" mariadb-install-db --no-defaults --datadir="$folder/data" --auth-root-authentication-method=normal \
      --skip-test-db >>"$log" 2>&1 || fail "mariadb-install-db failed"
    serve mariadbd --no-defaults --datadir="$folder/data" --socket="$sockets/socket" --pid-file="$sockets/pid" \
      --skip-networking --skip-log-bin --innodb-flush-log-at-trx-commit=1 --innodb-doublewrite=ON \
      --innodb-buffer-pool-size=512M --innodb-log-file-size=2G
    answers() { mariadb-admin --no-defaults --socket="$sockets/socket" --user=root --silent ping >/dev/null 2>&1; }
    ;;
esac

for _ in $(seq 300); do
  kill -0 "$server" 2>/dev/null || fail "the server ended"
  if answers; then
    echo "ready $sockets"
    read -r _ || true
    finish
    server=""
    echo stopped
    exit
  fi
  sleep 0.1
done
fail "the server does not answer"
