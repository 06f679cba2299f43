#!/usr/bin/env bash
# From a fresh clone to a trained detector: installs what is missing, builds, makes a data set of synthetic shapes, trains,
# evaluates, exports and draws detections. Everything it makes lies in quickstart/ and build/.
#   scripts/quickstart.sh [--skip_setup] [more flags for train_detector]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --skip_setup ]; then shift; else scripts/setup.sh; fi

echo "== Build (the first one takes about a quarter of an hour)"
mkdir -p build
cmake --preset release >build/configure.log || { cat build/configure.log >&2; exit 1; }
cmake --build --preset release --target osprey_programs
bin=build/release/bin
out=quickstart
rm -rf "$out"
mkdir -p "$out/data"
started=$SECONDS

echo "== Data: synthetic shapes, other seeds for training and test"
"$bin/create_records" --format shapes --num_images 6000 --seed 1 --label_map "$out/data/label_map.pbtxt" --output "$out/data/train.record"
"$bin/create_records" --format shapes --num_images 400 --seed 1000001 --label_map "$out/data/label_map.pbtxt" --output "$out/data/test.record"

echo "== Training"
config=(--pipeline_config configs/quickstart.config --data_dir "$out/data")
"$bin/train_detector" "${config[@]}" --model_dir "$out/model" "$@"

echo "== Evaluation on pictures it has not seen"
"$bin/eval_detector" --pipeline_config "$out/model/pipeline.config" --checkpoint_dir "$out/model" | tee "$out/evaluation.txt"

echo "== Export, compared with the checkpoint"
"$bin/export_model" --pipeline_config "$out/model/pipeline.config" --checkpoint "$out/model" --output_dir "$out/exported"

echo "== Detections on new pictures"
"$bin/create_records" --format shapes --num_images 6 --seed 2000001 --label_map "$out/data/label_map.pbtxt" --output "$out/data/new.record"
"$bin/detect" --model "$out/exported" --output_dir "$out/detections" --json "$out/detections.json" "$out/data/new.record"

map50=$(awk '/IoU=0.50 / && /area=   all/ {print $NF; exit}' "$out/evaluation.txt")
echo
echo "mAP@.5 on held-back pictures: $map50    time after the build: $((SECONDS - started)) s"
echo "Drawn detections:   $out/detections/*.jpg"
echo "Exported model:     $out/exported/model.pt"
echo "Curves:             tensorboard --logdir $out/model   (pip install tensorboard)"
