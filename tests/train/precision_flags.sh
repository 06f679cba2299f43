#!/usr/bin/env bash
# The flags for precision become the field of the config, and contradict each other aloud.
#   precision_flags.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
build=$1 config=$2

# says WANTED FLAGS...: the config that a run with these flags would have
says() {
  local wanted=$1 printed
  shift
  printed=$("$build/bin/train_detector" --pipeline_config "$config" --print_config "$@" | sed -nE 's,^ +(precision:) *([A-Z0-9]+).*,\1\2,p' || true)
  [ "$printed" = "$wanted" ] || { echo "$*: '$printed' instead of '$wanted'"; exit 1; }
}
says precision:TF32 --tf32
says precision:TF32 --tf32=true
says precision:FP32 --tf32=false
says precision:FP16 --amp
says precision:FP32 --amp=false
says precision:BF16 --precision bf16

for pair in "--tf32 --amp" "--tf32 --precision bf16" "--amp --precision bf16"; do
  code=0
  # shellcheck disable=SC2086  # two flags each
  said=$("$build/bin/train_detector" --pipeline_config "$config" --print_config $pair 2>&1) || code=$?
  [ "$code" = 2 ] || { echo "$pair: exit code $code"; exit 1; }
  [[ $said == *excludes* ]] || { echo "$pair: $said"; exit 1; }
done
