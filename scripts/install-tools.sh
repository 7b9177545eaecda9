#!/usr/bin/env bash
# Installs what the Makefile's targets use and this machine lacks: `install-tools.sh [GROUP…]`, all groups when none is
# named. Nothing already there is touched. What cannot be installed is said in one line each, and does not end the run:
# the target that needs it says the rest. The last line counts both.
set -uo pipefail
cd "$(dirname "$0")/.."

NEXTEST=0.9.151
DENY=0.20.2
FUZZ=0.13.2
# The runner and the crate must be of one version.
GUNGRAUN=$(sed -n 's/^gungraun = "=\(.*\)"$/\1/p' Cargo.toml)
VERSITYGW=v1.8.0
# The last with HDS.
STREAMLINK=1.7.0

installed=0 missing=0
have() { command -v "$1" >/dev/null 2>&1; }
say() { printf 'tools: %s\n' "$*"; }
lacks() { missing=$((missing + 1)); say "could not install $*"; }

# attempt NAME COMMAND…: runs quietly; shows the end of the output only where it failed.
attempt() {
  local name=$1 log
  shift
  log=$(mktemp)
  say "installing $name"
  if "$@" >"$log" 2>&1; then
    installed=$((installed + 1))
    rm -f "$log"
    return 0
  fi
  lacks "$name: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1)"
  rm -f "$log"
  return 1
}

# As root there may be no sudo; otherwise only a sudo that asks nothing, for there may be nobody to answer.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif have sudo; then sudo -n "$@"; else echo "needs root, and there is no sudo" >&2 && return 1; fi
}

apt_lists_fresh=no
# apt COMMAND PACKAGE: installs PACKAGE where COMMAND is missing.
apt() {
  have "$1" && return 0
  if ! have apt-get; then lacks "$2: no apt-get here; install $1 by hand"; return 1; fi
  if [ $apt_lists_fresh = no ]; then
    apt_lists_fresh=yes
    as_root apt-get update -qq >/dev/null 2>&1 || say "package lists could not be brought up to date"
  fi
  attempt "$2" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2"
}

# element NAME PACKAGE: installs the package that has a GStreamer element.
element() { gst-inspect-1.0 --exists "$1" 2>/dev/null || apt "no-command-has-$1" "$2"; }

# cargo_tool SUBCOMMAND VERSION: a debug build, for these tools are built more often than they are waited for.
cargo_tool() {
  cargo "$1" --version >/dev/null 2>&1 && return 0
  attempt "cargo-$1 $2" cargo install --locked --debug "cargo-$1@$2"
}

group_media() { apt ffmpeg ffmpeg; }

group_servers() {
  # Debian keeps nginx where an ordinary user's PATH does not look.
  [ -x /usr/sbin/nginx ] || apt nginx nginx-light
  have versitygw && return 0
  if have go; then
    attempt "versitygw $VERSITYGW" go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW"
  else
    lacks "versitygw: it needs Go"
  fi
}

# Clients of Smooth Streaming and HDS; tests that lack one are skipped.
group_clients() {
  apt gst-launch-1.0 gstreamer1.0-tools
  if have gst-inspect-1.0; then
    element decodebin gstreamer1.0-plugins-base
    element souphttpsrc gstreamer1.0-plugins-good
    element mssdemux gstreamer1.0-plugins-bad
    element avdec_h264 gstreamer1.0-libav
  fi
  [ -d e2e/.venv/lib ] && [ -n "$(find e2e/.venv/lib -maxdepth 3 -name "streamlink-$STREAMLINK.dist-info")" ] && return 0
  apt python3 python3
  have python3 || return 0
  python3 -c 'import ensurepip' 2>/dev/null || apt no-command-has-ensurepip python3-venv
  attempt "streamlink $STREAMLINK" sh -c "python3 -m venv e2e/.venv && e2e/.venv/bin/pip install --quiet streamlink==$STREAMLINK"
}

# The reference reader of OpenMetrics, for tests of what /metrics says.
group_metrics() {
  apt python3 python3
  python3 -c 'import prometheus_client' 2>/dev/null || apt no-command-has-prometheus-client python3-prometheus-client
}

# What loads a server for `make bench`.
group_load() {
  apt wrk wrk
  apt taskset util-linux
}

group_browser() { [ -n "${CHROMIUM:-}" ] || apt chromium chromium; }

group_npm() {
  if ! have npm; then apt npm npm; fi
  have npm || return 0
  for folder in web e2e; do
    # npm keeps a copy of the lock file it last installed from.
    if [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then continue; fi
    attempt "npm packages of $folder/" npm ci --prefix "$folder" --no-fund --no-audit
  done
}

group_rust() { cargo_tool nextest $NEXTEST; }
group_lint() { cargo_tool deny $DENY; }

# What counts instructions.
group_instructions() {
  apt valgrind valgrind
  [ "$(gungraun-runner --version 2>/dev/null)" = "gungraun-runner $GUNGRAUN" ] ||
    attempt "gungraun-runner $GUNGRAUN" cargo install --locked --debug --force "gungraun-runner@$GUNGRAUN"
}

group_fuzz() {
  cargo +nightly --version >/dev/null 2>&1 ||
    attempt "the nightly toolchain" rustup toolchain install nightly --profile minimal || return 0
  cargo +nightly fuzz --version >/dev/null 2>&1 || attempt "cargo-fuzz $FUZZ" cargo install --locked --debug "cargo-fuzz@$FUZZ"
}

for group in ${*:-media servers load metrics browser clients npm rust lint instructions fuzz}; do
  "group_$group"
done
[ $((installed + missing)) = 0 ] || say "$installed installed, $missing could not be"
exit 0
