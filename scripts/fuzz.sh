#!/usr/bin/env bash
# Runs each fuzz target: `fuzz.sh [SECONDS]`, 30 s each by default. Without the tools, reports that
# and succeeds. `make test` then repeats it in its last lines.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-tools.sh fuzz
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  target=${CARGO_TARGET_DIR:-target}
  mkdir -p "$target"
  echo "fuzz: not run: the nightly toolchain or cargo-fuzz is missing" | tee -a "$target/skipped.txt"
  exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A backtrace of cargo-fuzz itself would push the find out of the last lines.
if RUST_BACKTRACE=0 fuzz/run.sh "${1:-30}" >"$log" 2>&1; then
  grep -E '^== |^stat::(number_of_executed_units|peak_rss_mb)' "$log"
else
  # If a target does not compile, grep finds nothing and fails; this is ignored, so that the end of
  # the log is still printed.
  grep -E '^== |^thread .* panicked|ERROR: libFuzzer|^SUMMARY|Test unit written' "$log" | tail -n 8 || true
  tail -n 60 "$log"
  exit 1
fi
