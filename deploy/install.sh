#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Exeunt from this folder, instead of a version that it installed before, or removes it:
#   ./install.sh [--prefix DIR] [--uninstall]        DIR: /usr/local
set -eu
prefix=/usr/local uninstall=false
fail() { echo "install.sh: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) prefix=${2:-}; [ $# -eq 1 ] || shift ;;
    --uninstall) uninstall=true ;;
    *) echo "install.sh: unknown argument $1; want [--prefix DIR] [--uninstall]" >&2; exit 2 ;;
  esac
  shift
done
case $prefix in /*) ;; *) echo "install.sh: --prefix: got '$prefix', want an absolute path" >&2; exit 2 ;; esac
cd "$(dirname "$0")"
installed=$prefix/share/exeunt/installed # files and the folders made for them, one a line

remove() {
  sort -r "$installed" | while read -r path; do # what a folder holds comes before it
    if [ -d "$prefix/$path" ] && [ ! -L "$prefix/$path" ]; then
      rmdir "$prefix/$path" 2> /dev/null || true # not empty: somebody else's files are in it
    else
      rm -f "$prefix/$path"
    fi
  done
}

if $uninstall; then
  [ -f "$installed" ] || fail "$installed: not found; nothing was installed there by this script"
  [ -w "$prefix/bin" ] || fail "$prefix: may not be written; try sudo"
  remove
  echo "removed Exeunt from $prefix"
  exit
fi
bin/exeunt --version > /dev/null || fail "bin/exeunt does not run here: it is for @MACHINE@ with glibc @GLIBC@ or newer"
mkdir -p "$prefix" 2> /dev/null && [ -w "$prefix" ] || fail "$prefix: may not be written; try sudo, or --prefix ~/.local"
[ ! -f "$installed" ] || remove
list=$(for path in $(find bin include lib share | LC_ALL=C sort) share/exeunt share/exeunt/installed; do
  [ -d "$prefix/$path" ] || echo "$path"
done)
mkdir -p "$prefix/share/exeunt"
echo "$list" > "$installed"
for path in $(find bin include lib share); do
  if [ -d "$path" ]; then
    mkdir -p "$prefix/$path"
  else
    cp -P --remove-destination "$path" "$prefix/$path"
  fi
done
sed -i "s|^ExecStart=exeunt|ExecStart=$prefix/bin/exeunt|" "$prefix/lib/systemd/system/exeunt.service"
echo "installed $("$prefix/bin/exeunt" --version | head -n 1) into $prefix"
case :$PATH: in *:$prefix/bin:*) ;; *) echo "notice: $prefix/bin is not on the PATH" ;; esac
