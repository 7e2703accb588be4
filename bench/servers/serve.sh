#!/usr/bin/env bash
# Runs a server with its data on the disk for as long as a bench runs.
#
#   serve.sh KIND check              prints "here", or why it cannot be run
#   serve.sh KIND FOLDER             serves with its data in FOLDER, an empty one
#   serve.sh zookeeper FOLDER PORT   the same, at PORT of 127.0.0.1
#
# KIND is postgres, mariadb, mariadb-binlog (with a synchronized binary log, as a server with replicas has it) or zookeeper.
#
# Prints "ready ADDRESS" once it answers: the folder of its socket, or HOST:PORT. At the line "stop", or at the end of the
# standard input, when the bench is gone however it ended, it stops the server, removes its folders and prints "stopped".
#
# What is acknowledged is on the disk: every commit waits for its fsync, and torn pages are guarded against. Otherwise the
# server has what a busy shop would give it: memory, and a log that needs no checkpoint while it is measured.
set -euo pipefail
kind=${1%-binlog}
folder=$2
# With a binary log, a buffer pool in which the indexes of 10^7 orders have room.
mariadb_flags=(--skip-log-bin --innodb-buffer-pool-size=512M)
[ "$1" = "$kind" ] ||
  mariadb_flags=(--log-bin=binlog --sync-binlog=1 --server-id=1 --innodb-buffer-pool-size=2G)

postgres_bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
PATH=$PATH${postgres_bin:+:$postgres_bin}:/usr/sbin
zookeeper_jar=/usr/share/java/zookeeper.jar

# The databases refuse to run as root, and have a user from their packages then.
declare -A users=([postgres]=postgres [mariadb]=mysql [zookeeper]=$(id -un))
declare -A programs=(
  [postgres]="initdb postgres pg_isready setpriv"
  [mariadb]="mariadb-install-db mariadbd mariadb-admin setpriv"
  [zookeeper]="java setpriv")
declare -A packages=([postgres]=postgresql [mariadb]=mariadb-server [zookeeper]=zookeeper)
user=${users[$kind]}

if [ "$folder" = check ]; then
  for program in ${programs[$kind]}; do
    command -v "$program" >/dev/null || { echo "there is no $program (Debian: ${packages[$kind]})"; exit; }
  done
  [ "$kind" != zookeeper ] || [ -e "$zookeeper_jar" ] || { echo "there is no $zookeeper_jar (Debian: zookeeper)"; exit; }
  [ "$(id -u)" -ne 0 ] || id "$user" >/dev/null 2>&1 || { echo "it does not run as root, and there is no user $user"; exit; }
  echo here
  exit
fi

as_user=(setpriv)
sockets=$(mktemp -d /tmp/stockade-bench.XXXXXX)  # A socket's name is at most 107 characters; the folder's may be longer.
log=$folder/log
server=""
end_signal=QUIT  # Whether this script ends or is killed: nothing needs to be saved.
finish() {
  [ -z "$server" ] || { kill "-$end_signal" "$server"; wait "$server"; } || true
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

serve() {
  "${as_user[@]}" --pdeathsig "$end_signal" -- "$@" >>"$log" 2>&1 </dev/null &
  server=$!
}

address=$sockets
case $kind in
  postgres)
    "${as_user[@]}" initdb -D "$folder/data" -U bench -A trust -E UTF8 --no-locale --no-sync >>"$log" 2>&1 ||
      fail "initdb failed"
    serve postgres -D "$folder/data" -k "$sockets" -c listen_addresses= -c fsync=on -c synchronous_commit=on \
      -c full_page_writes=on -c wal_level=minimal -c max_wal_senders=0 -c shared_buffers=512MB -c max_wal_size=8GB
    answers() { pg_isready -q -h "$sockets"; }
    ;;
  mariadb)
    "${as_user[@]}" mariadb-install-db --no-defaults --datadir="$folder/data" --tmpdir="$folder" --auth-root-authentication-method=normal \
      --skip-test-db >>"$log" 2>&1 || fail "mariadb-install-db failed"
    serve mariadbd --no-defaults --datadir="$folder/data" --socket="$sockets/socket" --pid-file="$sockets/pid" --tmpdir="$folder" \
      --skip-networking "${mariadb_flags[@]}" --innodb-flush-log-at-trx-commit=1 --innodb-doublewrite=ON \
      --innodb-log-file-size=2G
    answers() { mariadb-admin --no-defaults --socket="$sockets/socket" --user=root --silent ping >/dev/null 2>&1; }
    ;;
  zookeeper)
    port=$3
    address=127.0.0.1:$port
    printf '%s\n' "dataDir=$folder/data" clientPortAddress=127.0.0.1 "clientPort=$port" tickTime=2000 maxClientCnxns=0 \
      admin.enableServer=false 4lw.commands.whitelist=ruok >"$folder/zoo.cfg"
    end_signal=KILL  # A JVM takes QUIT for a question, and does without TERM where it is ignored.
    serve java -Xms512m -Xmx512m -cp "$zookeeper_jar" org.apache.zookeeper.server.quorum.QuorumPeerMain \
      "$folder/zoo.cfg"
    answers() { (exec 3<>"/dev/tcp/127.0.0.1/$port" && printf ruok >&3 && [ "$(head -c 4 <&3)" = imok ]) 2>/dev/null; }
    ;;
esac

for _ in $(seq 300); do
  kill -0 "$server" 2>/dev/null || fail "the server ended"
  if answers; then
    echo "ready $address"
    read -r _ || true
    finish
    server=""
    echo stopped
    exit
  fi
  sleep 0.1
done
fail "the server does not answer"
