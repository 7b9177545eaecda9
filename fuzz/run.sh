#!/bin/sh
# Runs fuzz targets for SECONDS each: ./run.sh [SECONDS [TARGET…]]. Defaults: 60 s, all targets.
# `cost.sh` runs the target `cost` for a given CPU time.
# Needs a nightly compiler, a C++ compiler for libFuzzer, and `cargo install cargo-fuzz --locked`.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
cargo +nightly run --quiet --example seeds
for target in ${*:-$(cargo +nightly fuzz list)}; do
    echo "== $target"
    # An allocation beyond 16 MiB for an input of at most 64 KiB means that a count was not checked.
    # The inputs of `cost` are recipes of files of up to 1 MB, which may cost 64 MiB.
    limits="-max_len=65536 -malloc_limit_mb=16 -timeout=60"
    # One such input takes 10 s if nothing else runs, and several times as long on a busy machine.
    [ "$target" = cost ] && limits="-max_len=1024 -malloc_limit_mb=64 -len_control=0 -timeout=600"
    time=$seconds
    # These read little, and soon reach all there is.
    case $target in proxy_header | responses) time=$((seconds / 3 + 1)) ;; esac
    # shellcheck disable=SC2086 # several words
    cargo +nightly fuzz run "$target" -- -max_total_time="$time" $limits \
        -rss_limit_mb=1024 -print_final_stats=1
done
