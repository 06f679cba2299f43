#!/usr/bin/env bash
# What a config leaves to the data, the number of classes and of steps, all programs take from there.
#   left_to_the_data.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed '/num_classes:/d; s/num_steps:.*/num_epochs: 2/' "$2" >"$folder/pipeline.config"
cd "$folder"

"$bin/create_records" --format shapes --num_images 4 --label_map data/label_map.pbtxt --output data/train.record
cp data/train.record data/test.record
config=(--pipeline_config pipeline.config --data_dir data)
[[ $("$bin/inspect_pipeline" "${config[@]}") == *"num_classes: 3"* ]] || { echo "inspect_pipeline: not 3 classes"; exit 1; }
"$bin/train_detector" "${config[@]}" --model_dir run --train_batch_size 2 --eval_every_n 100
"$bin/train_detector" "${config[@]}" --dry_run --set train_input_reader.label_map_path= >/dev/null  # that of the evaluation says it, too
[ -e run/ckpt-4.osprey ] || { echo "two epochs of two steps: $(ls run)"; exit 1; }
"$bin/export_model" "${config[@]}" --checkpoint run --output_dir exported --parity_images 1 --noonnx

# There is nothing to wait for behind the last step.
said=$(timeout 120 "$bin/eval_detector" "${config[@]}" --checkpoint_dir run --model_dir elsewhere --watch 2>&1) || { echo "--watch: $said"; exit 1; }
[ -e elsewhere/eval/metrics_4.json ] || { echo "--watch: $(ls elsewhere/eval)"; exit 1; }

# Nor behind the step where the training has stopped early.
"$bin/train_detector" "${config[@]}" --model_dir early --train_batch_size 2 --eval_every_n 1 --num_train_steps 20 \
  --set 'train_config.early_stopping={patience_evaluations: 2 min_delta: 1}'
[ "$(ls early/ckpt-*.osprey)" = early/ckpt-3.osprey ] || { echo "early stopping: $(ls early)"; exit 1; }
timeout 120 "$bin/eval_detector" "${config[@]}" --checkpoint_dir early --model_dir elsewhere --watch >/dev/null || { echo "--watch waits on"; exit 1; }

# Without a label map nothing says it.
code=0
said=$("$bin/inspect_pipeline" --pipeline_config pipeline.config 2>&1) || code=$?
[ "$code" = 2 ] && [[ $said == *"a label map"* ]] || { echo "no label map: exit code $code: $said"; exit 1; }
