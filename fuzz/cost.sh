#!/usr/bin/env bash
# Searches for costly files until CPU_SECONDS are used, and records the worst: ./cost.sh
# [CPU_SECONDS]. Default: 7200. Half of the time runs the target `cost` (libFuzzer, instrumented),
# the other half `examples/cost.rs --search` (not instrumented), which begins with what the first
# half has found. Both keep what costs more than any input before in `corpus/cost`. The record with
# the CPU time and the worst inputs goes to `../bench/results/fuzz-cost-DATE.txt`. Inputs that cost
# more than those of `latemux_testmedia::hostile::costly` belong there: that makes them regression
# seeds.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-7200}
half=$((seconds / 2))
record=../bench/results/fuzz-cost-$(date -u +%Y-%m-%dT%H-%M-%SZ).txt
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p "$(dirname "$record")" artifacts/cost
TIMEFORMAT='%U %S'

# Runs a command and adds its CPU time in seconds to `spent`.
spent=0
metered() {
  local taken status=0
  taken=$( { time "$@" >"$log" 2>&1; } 2>&1 ) || status=$?
  spent=$(awk -v a="$spent" -v b="$taken" 'BEGIN { split(b, t, " "); print a + t[1] + t[2] }')
  if [ "$status" != 0 ]; then tail -n 40 "$log" >&2; fi
  return "$status"
}

cargo +nightly run --quiet --example seeds
cargo +nightly fuzz build cost 2>/dev/null
cargo +nightly build --quiet --release --example cost
before=$(find corpus/cost -type f | wc -l)

# libFuzzer has a limit of wall-clock time only. It runs in slices until the CPU time is used up.
executed=0
failed=0
while awk -v s="$spent" -v h="$half" 'BEGIN { exit !(s < h) }'; do
  left=$(awk -v s="$spent" -v h="$half" 'BEGIN { t = int(h - s) + 1; print t < 600 ? t : 600 }')
  # An input that fails is kept in `artifacts/cost`, and ends the slice. The record says so.
  metered cargo +nightly fuzz run cost -- -max_total_time="$left" -max_len=1024 -malloc_limit_mb=64 \
    -len_control=0 -timeout=600 -rss_limit_mb=2048 -print_final_stats=1 || failed=$((failed + 1))
  units=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  executed=$((executed + ${units:-0}))
  echo "$spent s of CPU time, $executed inputs"
done
fuzzed=$spent
spent=0
metered cargo +nightly run --quiet --release --example cost -- --search "$half" corpus/cost
searched=$spent
tried=$(sed -n 's/ inputs$//p' "$log" | tail -n 1)
{
  echo "commit $(git describe --always --dirty), $(rustc +nightly --version)"
  awk -v f="$fuzzed" -v s="$searched" 'BEGIN { printf "%.2f CPU-hours of the target, %.2f CPU-hours of the search\n", f / 3600, s / 3600 }'
  echo "$failed inputs failed"
  echo "$executed inputs of the target, ${tried:-0} of the search; $before inputs in the corpus before"
  cargo +nightly run --quiet --release --example cost -- --worst 5 corpus/cost
} >"$record"
cat "$record"
echo "written to bench/results/$(basename "$record")"
