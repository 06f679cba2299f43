#!/usr/bin/env bash
# Trains on several machines with torchrun: run this on each of them, with the same HOST:PORT of the first.
#   scripts/launch/torchrun.sh MACHINES HOST:PORT PIPELINE_CONFIG MODEL_DIR [REPLICAS_PER_MACHINE] [more flags of train_detector]
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" >&2; exit 2; }
machines=$1 master=$2 config=$3 model_dir=$4 replicas=${5:-1}
shift $(($# < 5 ? $# : 5))
exec torchrun --no-python --nnodes="$machines" --nproc-per-node="$replicas" \
  --rdzv-backend=c10d --rdzv-endpoint="$master" \
  "${TRAIN_DETECTOR:-train_detector}" --pipeline_config "$config" --model_dir "$model_dir" "$@"
