#!/usr/bin/env bash
# Installs the packages of package-lock.json, proves the check of breaking changes, compares the schema with the golden one, runs
# graphql-eslint over it, and the official client of the SSE protocol against a server of its own.
set -euo pipefail
cd "$(dirname "$0")"
npm ci --ignore-scripts --no-audit --no-fund
folder=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; wait; rm -rf "$folder"' EXIT
(cd ../.. && go build -o "$folder/tidings" .)
"$folder/tidings" schema >"$folder/schema.graphql"
node --test breaking.test.mjs >"$folder/breaking" || { cat "$folder/breaking" >&2; exit 1; }
node breaking.mjs testdata/schema.graphql "$folder/schema.graphql"
node lint.mjs "$folder/schema.graphql"
cmp testdata/schema.graphql "$folder/schema.graphql" || { echo "The schema is not the golden one: make schema writes it." >&2; exit 1; }
touch "$folder/out" "$folder/log" # they are read below, perhaps before the server has opened them
"$folder/tidings" --listen 127.0.0.1:0 --data "$folder/data" --redis embedded >"$folder/out" 2>"$folder/log" &
server=$!
address=
for _ in {1..300}; do # half a minute
	address=$(sed -n 's/^Tidings serves \(http:[^ ]*\).*/\1/p' "$folder/out" "$folder/log")
	[[ -z $address ]] || break
	sleep 0.1
done
[[ -n $address ]] || { cat "$folder/out" "$folder/log" >&2; exit 1; }
node sse.mjs "$address"
