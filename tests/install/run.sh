#!/usr/bin/env bash
# Installs a build into an empty prefix, builds the consumer project against it and runs it: run.sh BUILD_DIR CONFIG
set -euo pipefail
build=$(realpath "$1")
config=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
torch=$(sed -n 's/^OSPREY_TORCH_INCLUDE_DIR:PATH=\(.*\)\/include$/\1/p' "$build/CMakeCache.txt")
cmake -S "$here" -B "$work/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" -DOSPREY_LIBTORCH="$torch" >"$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/consumer" -- -j2 >"$work/build.log" || { tail -n 40 "$work/build.log"; exit 1; }
"$work/consumer/consumer" "$config"
"$work/prefix/bin/train_detector" --version
test -x "$work/consumer/detect_picture/detect_picture"
