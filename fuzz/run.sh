#!/bin/sh
# Runs fuzz targets for SECONDS each: ./run.sh [SECONDS [TARGET…]]. Defaults: 60 s, all targets.
# Needs a nightly compiler, a C++ compiler for libFuzzer, and `cargo install cargo-fuzz --locked`.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -gt 0 ] && shift
cargo +nightly run --quiet --example seeds
for target in ${*:-$(cargo +nightly fuzz list)}; do
    echo "== $target, ${seconds} s"
    # An allocation beyond 16 MiB for an input of at most 64 KiB means that a count was not checked.
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -max_len=65536 -malloc_limit_mb=16 \
        -rss_limit_mb=1024 -timeout=60 -print_final_stats=1
done
