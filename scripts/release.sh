#!/usr/bin/env bash
# Builds releases into target/dist: `release.sh [TARGET…]`. For each target there is one static
# binary with the web pages in it, and for all of them a list of what is in them (SPDX) and the
# checksums. The default is the architecture of this machine, with musl as its C library.
set -euo pipefail
cd "$(dirname "$0")/.."

# Most bytes of a binary, so that growth is noticed.
LIMIT=20000000
out=${CARGO_TARGET_DIR:-target}/dist
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
commit=$(git rev-parse --short=9 HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit=$commit-modified

fail() { echo "release: $*" >&2 && exit 1; }

# Names the C compiler of a target, which builds the allocator and ring. For other architectures,
# zig has the headers of musl.
compiler() {
  local architecture=${1%%-*} zig
  if [ "$architecture" = "$(uname -m)" ]; then
    echo musl-gcc
  elif command -v "$architecture-linux-musl-gcc" >/dev/null || ! command -v zig >/dev/null; then
    echo "$architecture-linux-musl-gcc"
  else
    zig=$wrappers/$architecture-zig-cc
    # zig has names of its own for targets.
    cat > "$zig" <<END
#!/usr/bin/env bash
for argument; do shift; case \$argument in --target=*) ;; *) set -- "\$@" "\$argument" ;; esac; done
exec zig cc -target $architecture-linux-musl "\$@"
END
    printf '#!/bin/sh\nexec zig ar "$@"\n' > "$wrappers/ar"
    chmod +x "$zig" "$wrappers/ar"
    echo "$zig"
  fi
}

build() {
  local target=$1 cc ar=ar variable file flags page
  cc=$(compiler "$target")
  command -v "$cc" >/dev/null || fail "$target needs the C compiler $cc (Debian: musl-tools), or zig"
  # Paths of this machine would differ between two builds of the same source. Relative relocations
  # take half a MB if they are not packed.
  flags="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
  case $target in
    "$(uname -m)"-*) flags+=" -C link-arg=-Wl,-z,pack-relative-relocs" ;;
    # The linker of this machine links only for this architecture.
    *) flags+=" -C linker=rust-lld -C link-arg=--pack-dyn-relocs=relr" ;;
  esac
  rustup target add "$target" >/dev/null 2>&1 || fail "rustup cannot add the target $target"
  [ ! -e "$wrappers/ar" ] || ar=$wrappers/ar
  variable=${target//-/_}
  # Kernels for arm64 have pages of 4, 16 or 64 KiB. The allocator runs with pages up to the size
  # that it was built for, stated as log2 of the bytes.
  case $target in aarch64-*) page=16 ;; *) page=12 ;; esac
  # LATEMUX_REQUIRE_PAGES makes a build without the pages fail.
  env "CC_$variable=$cc" "AR_$variable=$ar" LATEMUX_COMMIT="$commit" LATEMUX_REQUIRE_PAGES=1 \
    JEMALLOC_SYS_WITH_LG_PAGE=$page \
    "CARGO_TARGET_${variable^^}_RUSTFLAGS=$flags" \
    cargo build --locked --release -p latemux --target "$target"
  file=$out/latemux-$version-$target
  install -D -m 755 "${CARGO_TARGET_DIR:-target}/$target/release/latemux" "$file"
  if readelf --program-headers "$file" | grep -q INTERP; then fail "$file is not static"; fi
  [ "$(stat -c %s "$file")" -le $LIMIT ] || fail "$file has $(stat -c %s "$file") bytes, more than $LIMIT"
}

# Binaries of another commit have no place beside these.
rm -rf "$out"
mkdir -p "$out"
wrappers=$(mktemp -d)
trap 'rm -rf "$wrappers"' EXIT
targets=("$@")
[ $# -gt 0 ] || targets=("$(uname -m)-unknown-linux-musl")
for target in "${targets[@]}"; do build "$target"; done
node scripts/sbom.mjs "${targets[@]}" > "$out/latemux-$version.spdx.json"
(cd "$out" && sha256sum "latemux-$version"-*-linux-musl "latemux-$version.spdx.json" > SHA256SUMS)
ls -l "$out"
