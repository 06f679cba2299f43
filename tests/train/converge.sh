#!/usr/bin/env bash
# A training to an accuracy by scripts/converge.sh: two processes, another batch, half precision; and what is said of wrong flags.
#   converge.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
command -v python3 >/dev/null || { echo "skipped: python3, which prints the table, is not here"; exit 77; }
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TRAIN_DETECTOR=$build/bin/train_detector
"$build/bin/create_records" --format shapes --num_images 8 --label_map "$folder/label_map.pbtxt" --output "$folder/train.record" >/dev/null 2>&1
cp "$folder/train.record" "$folder/test.record"
converge() { "$source/scripts/converge.sh" "$source/configs/quickstart.config" "$folder" "$@"; }
expect() { grep -qE -- "$2" "$1" || { echo "expected '$2' in"; cat "$1"; exit 1; }; }

steps=(--set train_config.num_steps=8 --eval_every_n 2 --set eval_config.batch_size=4)
converge "$folder/whole" --precision bf16 --devices 2 --batch_per_device 2 --device cpu "${steps[@]}" >"$folder/out" 2>"$folder/log" ||
  { cat "$folder/out" "$folder/log"; exit 1; }
expect "$folder/log" '2 replicas of 2 images each'
expect "$folder/log" ', bf16, '
expect "$folder/log" 'Done at step 16 ' # half the batch, twice the steps
for step in 2 4 6 8 10 12 14 16; do expect "$folder/out" "whole \| $step \| $((step / 2)).00 \| 0\.[0-9]{4} \| "; done

converge "$folder/near" --target=Loss/total_loss=1e6 --set train_config.early_stopping.patience_evaluations=3 --device cpu "${steps[@]}" >"$folder/out" 2>"$folder/log" ||
  { cat "$folder/out" "$folder/log"; exit 1; }
expect "$folder/log" 'Early stopping at step 2: Loss/total_loss has reached'
expect "$folder/out" 'near \| 2 \| '
expect "$folder/near/pipeline.config" 'patience_evaluations: 3'
converge "$folder/near" --target Loss/total_loss=1e6 --device cpu "${steps[@]}" >"$folder/out" 2>"$folder/log" || { cat "$folder/log"; exit 1; }
expect "$folder/log" 'stopped early before'
sed 's/^  batch_size: 8$//' "$source/configs/quickstart.config" >"$folder/without.config"
"$source/scripts/converge.sh" "$folder/without.config" "$folder" "$folder/default" --batch_per_device 16 --print_config >"$folder/out" 2>/dev/null || true
expect "$folder/out" 'base_batch_size: 32'
if converge "$folder/far" --target Loss/total_loss=1e-6 --device cpu "${steps[@]}" >"$folder/out" 2>"$folder/log"; then
  echo "a target that is not reached is no success"
  exit 1
fi
expect "$folder/log" '1e-06 was not reached by .*far'

for wrong in '--devices two' '--batch_per_device 0' '--target mAP'; do
  # shellcheck disable=SC2086
  if converge "$folder/none" $wrong >/dev/null 2>"$folder/log"; then echo "$wrong was taken"; exit 1; fi
  expect "$folder/log" "converge.sh: ${wrong%% *} '"
done
