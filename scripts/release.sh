#!/usr/bin/env bash
# Builds releases into target/dist: `release.sh [TARGET…]`. For each target there is one static
# binary with the web pages in it, and for all of them a list of what is in them (SPDX) and the
# checksums. The default is the architecture of this machine, with musl as its C library.
set -euo pipefail
cd "$(dirname "$0")/.."

# Most bytes of a binary, so that growth is noticed. It has 23.7 MB now; 20 MB are the aim.
LIMIT=$((24 << 20))
out=${CARGO_TARGET_DIR:-target}/dist
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
commit=$(git rev-parse --short=9 HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit=$commit-modified

fail() { echo "release: $*" >&2 && exit 1; }

# Names the C compiler of a target, which builds the allocator and ring.
compiler() {
  case $1 in
    "$(uname -m)"-unknown-linux-musl) echo musl-gcc ;;
    *) echo "${1%%-*}-linux-musl-gcc" ;;
  esac
}

build() {
  local target=$1 cc variable file
  cc=$(compiler "$target")
  command -v "$cc" >/dev/null || fail "$target needs the C compiler $cc (Debian: musl-tools)"
  rustup target add "$target" >/dev/null 2>&1 || fail "rustup cannot add the target $target"
  variable=${target//-/_}
  # LATEMUX_REQUIRE_PAGES makes a build without the pages fail. Paths of this machine would differ
  # between two builds of the same source.
  env "CC_$variable=$cc" LATEMUX_COMMIT="$commit" LATEMUX_REQUIRE_PAGES=1 \
    "CARGO_TARGET_${variable^^}_RUSTFLAGS=--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" \
    cargo build --locked --release -p latemux --target "$target"
  file=$out/latemux-$version-$target
  install -D -m 755 "${CARGO_TARGET_DIR:-target}/$target/release/latemux" "$file"
  if readelf --program-headers "$file" | grep -q INTERP; then fail "$file is not static"; fi
  [ "$(stat -c %s "$file")" -le $LIMIT ] || fail "$file has $(stat -c %s "$file") bytes, more than $LIMIT"
}

# Binaries of another commit have no place beside these.
rm -rf "$out"
mkdir -p "$out"
targets=("$@")
[ $# -gt 0 ] || targets=("$(uname -m)-unknown-linux-musl")
for target in "${targets[@]}"; do build "$target"; done
node scripts/sbom.mjs "${targets[@]}" > "$out/latemux-$version.spdx.json"
(cd "$out" && sha256sum "latemux-$version"-*-linux-musl "latemux-$version.spdx.json" > SHA256SUMS)
ls -l "$out"
