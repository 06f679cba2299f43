#!/usr/bin/env bash
# Checks the form of the tree: scripts/lint.sh (formatting) or scripts/lint.sh --tidy [FILE...] (clang-tidy too; slow)
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format --dry-run -Werror
if [ "${1:-}" = --tidy ]; then
  shift
  [ -f build/release/compile_commands.json ] || { echo "lint.sh: build first (scripts/test.sh)" >&2; exit 1; }
  files=("$@")
  [ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cc' 'tools/*.cc')
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build/release --warnings-as-errors='*'
fi
