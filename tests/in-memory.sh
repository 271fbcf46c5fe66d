#!/usr/bin/env bash
# Runs a command, a run of the tests, with a folder in memory for its temporary files. The tests make and drop very many, most for the
# databases of PostgreSQL. Four packages that do so took three quarters of the time that they take on a disk. Where TMPDIR is set, and on
# a system without such a folder or with little memory, the command runs as it is.
set -euo pipefail

memory=/dev/shm
least=$((6 * 1024 * 1024)) # KB free; a run with its binaries needs 2 GB

free() { # KB that the file system and the machine have
	local disk ram
	disk=$(df -Pk "$memory" | awk 'NR == 2 {print $4}')
	ram=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
	echo $((disk < ram ? disk : ram))
}

if [[ -n ${TMPDIR:-} || ! -w $memory || ! -r /proc/meminfo ]] || ! command -v flock >/dev/null || (($(free) < least)); then exec "$@"; fi

# The same name every time, because Go's cache of tests knows TMPDIR; a short one, for the paths of sockets.
folder=$memory/t-$UID
exec 9>>"$folder.lock"
flock --shared 9
if ! mkdir -p "$folder" || [[ ! -O $folder ]]; then exec "$@"; fi
chmod 1777 "$folder" # PostgreSQL runs under an account of its own

# The run that ends last removes what killed tests have left.
clean() { if flock --exclusive --nonblock 9; then rm -rf "$folder"; fi; }
trap clean EXIT

# A container may forbid programs in this folder, and the tests build some.
program=$(mktemp "$folder/XXXXXX")
printf '#!/bin/sh\n' >"$program"
chmod +x "$program"
if "$program" 2>/dev/null; then export TMPDIR=$folder; fi
rm -f "$program"
# The tests do not inherit the lock: what they leave running would hold it, and clean makes it exclusive.
"$@" 9>&-
