#!/usr/bin/env bash
# Compares what two builds of latemux send and write, byte for byte.
#
#   compare.sh revision REVISION     builds REVISION and this tree, and compares the two
#   compare.sh record FOLDER BINARY  makes FOLDER/titles, records BINARY's output in FOLDER/base.txt
#   compare.sh check FOLDER BINARY   compares BINARY's output with FOLDER/base.txt
#
# With SOURCE=URL the server reads FOLDER/titles from there, and FLAGS are further flags of `serve`.
# Responses depend on neither. Titles are encrypted as samples/compare.toml of this tree says; with
# RULES= none is, for a REVISION that knows no such rules.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '4,6s/^# *//p' "$0" >&2; exit 2; }

# Records the responses of BINARY as a server and the files that it packs.
record() { # FOLDER BINARY OUTPUT
  local folder=$1 binary=$2 output=$3 work server url
  work=$(mktemp -d)
  : >"$work/address"
  # shellcheck disable=SC2086
  LATEMUX_LOG=error "$binary" serve "${SOURCE:-$folder/titles}" --listen 127.0.0.1:0 --nginx-vod-urls \
    ${RULES---config "$repository/samples/compare.toml"} ${FLAGS:-} \
    >"$work/address" 2>"$work/log" &
  server=$!
  # shellcheck disable=SC2064
  trap "kill -INT $server 2>/dev/null || true; rm -rf '$work'" EXIT
  for _ in $(seq 100); do
    # The first line names the source, the second the server's address.
    url=$(sed -n 2p "$work/address" | grep -o 'http://127\.0\.0\.1:[0-9]*/' || true)
    [ -z "$url" ] || break
    sleep 0.1
  done
  [ -n "$url" ] || { cat "$work/log" >&2; echo "compare.sh: $binary did not start" >&2; exit 1; }
  node "$repository/scripts/responses.mjs" record "$url" -o "$output" --titles "$folder/titles/titles.txt" --bodies "$folder/bodies"
  pack "$folder" "$binary" "$work" >>"$output"
  kill -INT $server
  wait $server || true
  rm -rf "$work"
  trap - EXIT
}

# Prints a line for each file that `pack` writes of each title in the folder, and for each title
# that it refuses.
pack() { # FOLDER BINARY WORK
  local title file
  for title in "$1"/titles/*; do
    case ${title##*/} in titles.txt | media | manifest | indexed | sealed) continue ;; esac
    mkdir -p "$3/packed"
    "$2" pack "$title" -o "$3/packed/" >/dev/null 2>&1 || printf 'pack %s\trefused\n' "${title##*/}"
    "$2" pack "$title" -o "$3/packed/all.ismv" --ismv >/dev/null 2>&1 || printf 'pack --ismv %s\trefused\n' "${title##*/}"
    for file in "$3"/packed/*; do
      [ ! -f "$file" ] || printf 'pack %s %s\tsha256=%s\n' "${title##*/}" "${file##*/}" "$(sha256sum <"$file" | cut -d' ' -f1)"
    done
    rm -rf "$3/packed"
  done
}

prepare() { # FOLDER BINARY
  mkdir -p "$1"
  "$repository/samples/variants.sh" "$1/titles" "$2"
  record "$(realpath "$1")" "$2" "$1/base.txt"
}

check() { # FOLDER BINARY
  record "$(realpath "$1")" "$2" "$1/new.txt"
  node "$repository/scripts/responses.mjs" compare "$1/base.txt" "$1/new.txt"
}

case ${1:-} in
  record) [ $# -eq 3 ] || usage; prepare "$2" "$3" ;;
  check) [ $# -eq 3 ] || usage; check "$2" "$3" ;;
  revision)
    [ $# -eq 2 ] || usage
    cd "$repository"
    target=${CARGO_TARGET_DIR:-target}
    work=$target/compare
    mkdir -p "$work"
    [ -d "$work/tree" ] || git worktree add --quiet --force --detach "$work/tree" "$2"
    git -C "$work/tree" checkout --quiet --detach "$2"
    cargo build --locked -p latemux --manifest-path "$work/tree/Cargo.toml" --target-dir "$work/target"
    cargo build --locked -p latemux
    prepare "$work" "$work/target/debug/latemux"
    check "$work" "$target/debug/latemux"
    ;;
  *) usage ;;
esac
