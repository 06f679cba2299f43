#!/usr/bin/env bash
# Trains a config to its end, or to an accuracy, in one precision on so many devices of this machine, and prints when which accuracy was
# reached, evaluations and checkpoints included.
#   scripts/converge.sh CONFIG DATA_DIR MODEL_DIR [--precision P] [--devices N] [--batch_per_device B] [--target METRIC=VALUE] [more flags of train_detector]
# --precision         fp32, tf32, bf16, fp16 (default: as the config says)
# --devices           one process on each GPU, or with --device cpu so many on the CPU (default 1)
# --batch_per_device  images (default: the config's batch, shared). Where the batch becomes another one, learning rates and the steps of run
#                     and schedule follow (train_config.auto_scale_lr), so that as many images are seen
# --target            ends the run at the first evaluation that reaches it: DetectionBoxes_Precision/mAP=0.33
# TRAIN_DETECTOR is the program (build/release/bin/train_detector). Several machines: scripts/launch with the flags that this prints, without
# --num_clones and with the batch of all machines.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "converge.sh: $1" >&2; exit 2; }
[ $# -ge 3 ] && [[ $1 != -* && $2 != -* && $3 != -* ]] || usage
config=$1 data=$2 model=$3
shift 3
program=${TRAIN_DETECTOR:-$here/build/release/bin/train_detector}
devices=1 batch='' target='' flags=()
while [ $# -gt 0 ]; do
  case "$1" in
    --devices=* | --batch_per_device=* | --target=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
  esac
  case "$1" in
    --devices | --batch_per_device | --target) [ $# -ge 2 ] || usage ;;
  esac
  case "$1" in
    --devices) devices=$2 && shift 2 ;;
    --batch_per_device) batch=$2 && shift 2 ;;
    --target) target=$2 && shift 2 ;;
    *) flags+=("$1") && shift ;;
  esac
done
[[ $devices =~ ^[1-9][0-9]*$ ]] || fail "--devices '$devices' is no number of devices"
[[ -z $batch || $batch =~ ^[1-9][0-9]*$ ]] || fail "--batch_per_device '$batch' is no number of images"
[[ -z $target || $target =~ ^[^=]+=[-+.0-9e]+$ ]] || fail "--target '$target' is not METRIC=VALUE"

command=("$program" --pipeline_config "$config" --data_dir "$data" --model_dir "$model" --num_clones "$devices" "${flags[@]}")
printed=$("${command[@]}" --print_config)
of_training() { awk -v name="  $1" '/^train_config/ {inside = 1} /^}/ {inside = 0} inside && index($0, name) == 1 {print $2; exit}' <<<"$printed"; }
tuned_for=$(of_training batch_size:)
tuned_for=${tuned_for:-32} # as proto/osprey/protos/train.proto says
if [ -n "$batch" ] && [ $((batch * devices)) != "$tuned_for" ]; then
  [ -n "$(of_training auto_scale_lr)" ] || command+=(--set "train_config.auto_scale_lr={base_batch_size: $tuned_for scale_schedule: true}")
  command+=(--train_batch_size $((batch * devices)))
fi
[ -z "$target" ] || command+=(--set "train_config.early_stopping.metric=${target%=*}" --set "train_config.early_stopping.target=${target##*=}")
printf '%q ' "${command[@]}" && echo
"${command[@]}"
python3 "$here/bench/time_to_accuracy.py" "$model" --every ${target:+--metric "${target%=*}" --target "${target##*=}"}
