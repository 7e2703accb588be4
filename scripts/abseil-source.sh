#!/usr/bin/env bash
# Prints a folder with the sources of Debian's Abseil, of the version that is installed. Kept outside the tree, under
# ${XDG_CACHE_HOME:-~/.cache}/stockade, so that they are fetched once a machine.
set -euo pipefail

version=$(dpkg-query -W -f '${source:Version}' libabsl-dev)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stockade
sources=$cache/abseil-$version
mkdir -p "$cache"
exec 9>"$sources.lock"
flock 9
if [ -e "$sources" ]; then
  echo "$sources"
  exit 0
fi

work=$(mktemp -d "$cache/source.XXXXXX")
trap 'rm -rf "$work"' EXIT
log=$work/log
fail() { echo "abseil-source: $1:" >&2; tail -n 30 "$log" >&2; exit 2; }

# The source index of the archives that this machine takes binary packages from, in lists of our own: the machine's
# configuration stays as it is.
mkdir -p "$work/lists/partial" "$work/source"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
signed=""
[ ! -e "$keyring" ] || signed="[signed-by=$keyring] "
apt-get indextargets --format "deb-src $signed\$(REPO_URI) \$(CODENAME) \$(COMPONENT)|\$(ORIGIN)" \
    'Created-By: Packages' 2>>"$log" | sed -n 's/|Debian$//p' | sort -u >"$work/sources.list"
[ -s "$work/sources.list" ] || fail "no Debian archive is configured"
apt=(-o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
     -o "Dir::Cache::srcpkgcache=" -o "Dir::Cache::pkgcache=" -o APT::Sandbox::User=)
apt-get "${apt[@]}" update >>"$log" 2>&1 || fail "apt-get update of the source index failed"
(cd "$work/source" && apt-get "${apt[@]}" source "abseil=$version") >>"$log" 2>&1 || fail "no source of abseil $version"
mv "$(find "$work/source" -mindepth 1 -maxdepth 1 -type d)" "$sources"
echo "$sources"
