#!/usr/bin/env bash
# Installs the tools that the Makefile's targets use and this machine lacks:
# `install-tools.sh [GROUP…]`; all groups if none is named. Installed tools stay as they are. A tool
# that cannot be installed is reported on one line and does not end the run; the target that needs
# it will fail or skip. The last line counts both.
set -uo pipefail
cd "$(dirname "$0")/.."

NEXTEST=0.9.151
DENY=0.20.2
FUZZ=0.13.2
# The runner and the crate must have the same version.
GUNGRAUN=$(sed -n 's/^gungraun = "=\(.*\)"$/\1/p' Cargo.toml)
VERSITYGW=v1.8.0
HELM=v3.21.4
# The last version that supports HDS.
STREAMLINK=1.7.0
# Converts timed text between TTML, SubRip and WebVTT.
TTCONV=1.2.3
LXML=6.1.3

installed=0 missing=0
have() { command -v "$1" >/dev/null 2>&1; }
say() { printf 'tools: %s\n' "$*"; }
report_missing() { missing=$((missing + 1)); say "could not install $*"; }

# attempt NAME COMMAND…: runs a command quietly. If it fails, shows the last line of its output.
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
  report_missing "$name: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1)"
  rm -f "$log"
  return 1
}

# Runs a command as root. sudo must not ask for a password, since there may be nobody to type it.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif have sudo; then sudo -n "$@"; else echo "needs root, but there is no sudo" >&2 && return 1; fi
}

apt_lists_fresh=no
# apt COMMAND PACKAGE: installs PACKAGE if COMMAND is missing.
apt() {
  have "$1" && return 0
  if ! have apt-get; then report_missing "$2: there is no apt-get; install $1 by hand"; return 1; fi
  if [ $apt_lists_fresh = no ]; then
    apt_lists_fresh=yes
    as_root apt-get update -qq >/dev/null 2>&1 || say "the package lists could not be updated"
  fi
  attempt "$2" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2"
}

# element NAME PACKAGE: installs the package that contains a GStreamer element.
element() { gst-inspect-1.0 --exists "$1" 2>/dev/null || apt "no-command-has-$1" "$2"; }

# cargo_tool SUBCOMMAND VERSION: installs a debug build, since building a tool takes longer than
# running it.
cargo_tool() {
  cargo "$1" --version >/dev/null 2>&1 && return 0
  attempt "cargo-$1 $2" cargo install --locked --debug "cargo-$1@$2"
}

# python_package NAME VERSION: installs a package of Python for the tests alone.
python_package() {
  [ -d e2e/.venv/lib ] && [ -n "$(find e2e/.venv/lib -maxdepth 3 -name "$1-$2.dist-info")" ] && return 0
  apt python3 python3
  have python3 || return 0
  python3 -c 'import ensurepip' 2>/dev/null || apt no-command-has-ensurepip python3-venv
  attempt "$1 $2" sh -c "python3 -m venv e2e/.venv && e2e/.venv/bin/pip install --quiet $1==$2"
}

group_media() {
  apt ffmpeg ffmpeg
  # Headers of the encoder of scalable video. Its tests are skipped without them.
  [ -f /usr/include/wels/codec_api.h ] || apt no-command-has-openh264 libopenh264-dev
}

group_servers() {
  # Networks of simulated hosts. Debian's ip is in a folder outside an ordinary user's PATH too.
  [ -x /usr/sbin/ip ] || apt ip iproute2
  # Debian's nginx is in a folder outside an ordinary user's PATH.
  [ -x /usr/sbin/nginx ] || apt nginx nginx-light
  # Signs requests that change what users of versitygw may do.
  apt curl curl
  have versitygw && return 0
  if have go; then
    attempt "versitygw $VERSITYGW" go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW"
  else
    report_missing "versitygw: it needs Go"
  fi
}

# The oracle of Common Encryption beside ffmpeg.
group_drm() {
  have go || return 0
  have mp4ff-decrypt && return 0
  attempt "mp4ff-decrypt" go -C e2e/decrypt install github.com/Eyevinn/mp4ff/cmd/mp4ff-decrypt
}

# Types and schemas of others, which check the documents of the lab, and Helm, which renders the
# chart.
group_lab() {
  have go || return 0
  have helm || attempt "helm $HELM" go install "helm.sh/helm/v3/cmd/helm@$HELM"
  (cd lab/nbmp && GOPROXY=off go list -deps -test ./... >/dev/null 2>&1) && return 0
  attempt "the Go modules of lab/nbmp" go -C lab/nbmp mod download
}

# Clients of Smooth Streaming and HDS. Tests are skipped if theirs is missing.
group_clients() {
  apt gst-launch-1.0 gstreamer1.0-tools
  if have gst-inspect-1.0; then
    element decodebin gstreamer1.0-plugins-base
    element souphttpsrc gstreamer1.0-plugins-good
    element mssdemux gstreamer1.0-plugins-bad
    element avdec_h264 gstreamer1.0-libav
  fi
  python_package streamlink $STREAMLINK
}

# The oracle of conversions of subtitles, and the validator of manifests against schemas.
group_text() {
  python_package ttconv $TTCONV
  python_package lxml $LXML
}

# The reference reader of OpenMetrics, for the tests of /metrics.
group_metrics() {
  apt python3 python3
  python3 -c 'import prometheus_client' 2>/dev/null || apt no-command-has-prometheus-client python3-prometheus-client
}

# Tools that load a server for `make bench`.
group_load() {
  apt wrk wrk
  apt taskset util-linux
}

group_browser() { [ -n "${CHROMIUM:-}" ] || apt chromium chromium; }

group_npm() {
  if ! have npm; then apt npm npm; fi
  have npm || return 0
  for folder in web e2e; do
    # npm keeps a copy of the lock file of its last installation.
    if [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then continue; fi
    attempt "npm packages of $folder/" npm ci --prefix "$folder" --no-fund --no-audit
  done
}

# The C compiler of static binaries.
group_release() { apt musl-gcc musl-tools; }

# Runs the image. The runtime is Debian's default for podman, but not always the one that works.
group_containers() {
  apt podman podman
  [ -x /usr/sbin/runc ] || apt runc runc
}

group_rust() { cargo_tool nextest $NEXTEST; }
group_lint() { cargo_tool deny $DENY; }

# Tools that count instructions.
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

for group in ${*:-media servers load metrics browser clients text drm lab npm rust lint instructions fuzz containers}; do
  "group_$group"
done
[ $((installed + missing)) = 0 ] || say "$installed installed, $missing could not be installed"
exit 0
