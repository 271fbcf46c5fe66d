#!/bin/sh
# Installs the packages of package-lock.json, builds the assets again and fails when that changes a committed file.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts
(cd demo && npm ci --ignore-scripts)
node build.mjs
node demo/build.mjs
node demo/forms.mjs
changed=$(git status --porcelain -- assets package-lock.json demo/package-lock.json)
if [ -n "$changed" ]; then
	echo "web/verify.sh: the build differs from what is committed:" >&2
	echo "$changed" >&2
	exit 1
fi
