# For scripts that build drivers: small programs around a peer that is not C++. Each has a folder below build/, in which
# is then ./driver, or ./why with one line that says why it is left out; nothing here makes the script fail.
#
# Maven, cargo and npm fetch the peers, each as its user has configured it, and only when a driver is not there or its source
# has changed; with STOCKADE_SKIP_INSTALL=1 nothing is fetched.
#
# It is run in the project's root, and `script` is what sources this.

# The exit status by which a build function says that its peer cannot be fetched here; that is no failure.
not_fetched=75

# driver <folder> <what it is> <function that builds it> <options with which it says "ready"> <programs that this takes>
#        <folders of its source>...
#
# The function runs in a copy of the source and leaves ./driver there. Of processes that want one driver at the same time (two
# tests of ctest), one builds it and the others wait.
driver() {
  mkdir -p "$(dirname "$1")"
  (
    flock 9
    build_driver "$@" 9>&-
  ) 9>"$1.lock"
}

build_driver() {
  local folder=$PWD/$1 log=$PWD/$1.log what=$2 build=$3 options=$4 programs=$5 source program missing="" why
  local stamp=$folder/stamp
  shift 5
  source=$({ cat "$script" "${BASH_SOURCE[0]}" && find "$@" -type f | LC_ALL=C sort | xargs cat; } | sha256sum)
  if [ "$(cat "$stamp" 2>/dev/null)" = "$source" ] && says_ready "$folder" "$options"; then return; fi
  for program in $programs; do command -v "$program" >/dev/null 2>&1 || missing="$missing $program"; done
  if [ -n "$missing" ]; then
    leave_out "$folder" "$what" "not installed:$missing (scripts/install-deps.sh bench-peers, then $script)"
    return
  fi
  if [ -n "${STOCKADE_SKIP_INSTALL:-}" ]; then
    leave_out "$folder" "$what" "not built, for STOCKADE_SKIP_INSTALL is set"
    return
  fi

  echo "peers: building $what (log: ${log#"$PWD/"})"
  rm -rf "$folder"
  mkdir -p "$folder"
  for source_folder in "$@"; do cp -r "$source_folder/." "$folder"; done
  local status=0
  (cd "$folder" && export -f "$build" java_driver npm_driver && timeout 600 bash -euc "$build") </dev/null >"$log" 2>&1 || status=$?
  if [ "$status" -eq 0 ] && says_ready "$folder" "$options"; then
    echo "$source" >"$stamp"
  else
    why=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -im1 error || tail -n 1 "$log")
    [ "$status" -eq "$not_fetched" ] && why="it could not be fetched: ${why:0:200}" || why="it could not be built: ${why:0:200}"
    leave_out "$folder" "$what" "$why ($log)"
  fi
}

leave_out() {  # <folder> <what> <why>
  rm -rf "$1"
  mkdir -p "$1"
  echo "$3" >"$1/why"
  echo "peers: $2 is left out: $3" >&2
}

says_ready() {  # <folder> <options>
  [ "$(echo 'checksum 1' | timeout 60 "$1/driver" $2 2>/dev/null | head -n 1)" = ready ]
}

# For such functions: of a folder with a pom.xml and classes.
java_driver() {  # <main class> [option of java]...
  local main=$1
  shift
  mvn -B -q dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$PWD/jars" || exit 75
  mkdir classes
  javac -proc:none -cp 'jars/*' -d classes ./*.java
  cat >driver <<SH
#!/bin/sh
cd "\$(dirname "\$0")" && exec java $* -cp 'classes:jars/*' $main "\$@"
SH
  chmod +x driver
}

# For such functions: of a folder with a package.json, whose dependencies have exact versions, and a script for Node.js.
npm_driver() {  # <script>
  npm install --silent --no-audit --no-fund --ignore-scripts --no-package-lock || exit 75
  printf '#!/bin/sh\nexec node "$(dirname "$0")/%s" "$@"\n' "$1" >driver
  chmod +x driver
}

# For a test that is such a driver: runs it. If the driver is left out, the test is skipped (77); in CI it fails, except
# if a program is not installed or the registry does not answer.
run_driver() {  # <folder> [argument]...
  local folder=$PWD/$1
  shift
  [ ! -x "$folder/driver" ] || exec "$folder/driver" "$@"
  case $(cat "$folder/why") in
    *'could not be fetched'* | 'not installed'* | 'not built'*) exit 77 ;;
  esac
  [ -z "${CI:-}" ] && exit 77
  exit 1
}
