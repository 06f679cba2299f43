#!/usr/bin/env bash
# Checks the form of the tree: scripts/lint.sh (formatting) or scripts/lint.sh --tidy [FILE...] (clang-tidy too; slow:
# version 14 takes a minute per file, those from 21 on (CLANG_TIDY=...) a quarter of that)
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format --dry-run -Werror
if [ "${1:-}" = --tidy ]; then
  shift
  [ -d build/release/proto/osprey ] || { echo "lint.sh: build first (scripts/test.sh)" >&2; exit 1; }
  # One file at a time, without the warnings that are GCC's alone; the headers to precompile are read as text.
  cmake --preset release -B build/tidy -DCMAKE_UNITY_BUILD=OFF >/dev/null
  sed -i -E 's# -Wno-(maybe-uninitialized|subobject-linkage)##g; s#build/tidy/proto#build/release/proto#g; s# -std=c\+\+20#& -I'"$PWD"'/cmake#' \
    build/tidy/compile_commands.json
  files=("$@")
  [ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cc' 'tools/*.cc')
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 "${CLANG_TIDY:-clang-tidy}" --quiet -p build/tidy --warnings-as-errors='*'
fi
