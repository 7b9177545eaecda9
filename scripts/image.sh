#!/usr/bin/env bash
# Builds the image: `image.sh BINARY [TAG]`, with podman or docker. A binary that is not static,
# such as one of the development build, gets the libraries that it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1 tag=${2:-latemux}
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

tool=${CONTAINER_TOOL:-$(command -v podman || command -v docker)} || { echo "image: neither podman nor docker" >&2; exit 1; }
install -m 755 "$binary" "$context/latemux"
for roots in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
  if [ -e "$roots" ]; then install -D -m 644 "$roots" "$context/etc/ssl/certs/ca-certificates.crt" && break; fi
done
[ -d "$context/etc/ssl/certs" ] || { echo "image: no roots of certificate authorities: install ca-certificates" >&2; exit 1; }
# ldd fails for a static binary.
for library in $(ldd "$binary" 2>/dev/null | grep -o '/[^ ]*'); do install -D -m 755 "$library" "$context$library"; done
mkdir -p "$context/media"

version=$("$binary" --version | cut -d' ' -f2)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# The format of OCI has no field for a health check.
format=()
[ "$(basename "$tool")" != podman ] || format=(--format docker --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 ${OCI_RUNTIME:+--runtime "$OCI_RUNTIME"})
"$tool" build --quiet "${format[@]}" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
  -f deploy/image/Containerfile -t "$tag" "$context"
