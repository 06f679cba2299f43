#!/usr/bin/env bash
# Lists the outputs of the last build with the seconds each took, slowest first: scripts/build_times.sh BUILD_DIR
set -euo pipefail
awk -F'\t' 'NR > 1 { seconds[$4] = ($2 - $1) / 1000 } END { for (file in seconds) printf "%7.1f  %s\n", seconds[file], file }' \
  "${1:?usage: build_times.sh BUILD_DIR}/.ninja_log" | sort -rn
