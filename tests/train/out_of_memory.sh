#!/usr/bin/env bash
# A batch that does not fit under a limit ends the training with the size of one that does, which then trains under that limit.
#   out_of_memory.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
build=$1 config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1

# train NAME FLAGS...: takes the place of this shell
train() {
  exec "$build/bin/train_detector" --pipeline_config "$config" --use_fake_data --model_dir "$folder/$1" --num_train_steps 1 \
    --set train_config.fine_tune_checkpoint= --set train_input_reader.label_map_path= "${@:2}"
}

# What a small batch takes is the limit, and 1 GiB more.
train small --train_batch_size 8 >"$folder/small.log" 2>&1 &
taken=0
while kill -0 $! 2>/dev/null; do
  now=$(awk '/^VmPeak/ {print $2}' "/proc/$!/status" 2>/dev/null || true)
  [ "${now:-0}" -le "$taken" ] || taken=$now
  sleep 0.02
done
wait $!
[ "$taken" -gt 0 ]
ulimit -v $((taken + (1 << 20)))

code=0
(train large --train_batch_size 1024) >"$folder/large.log" 2>&1 || code=$?
tail -n 1 "$folder/large.log"
[ "$code" = 5 ]
fits=$(sed -nE 's/.*train_config.batch_size=([0-9]+).*/\1/p' "$folder/large.log")
parts=$(sed -nE 's/.*train_config.gradient_accumulation_steps=([0-9]+).*/\1/p' "$folder/large.log")
[ "$fits" -ge 8 ] && [ "$fits" -lt 1024 ]
(train fitting --train_batch_size "$fits")
(train in_parts --train_batch_size 1024 --set "train_config.gradient_accumulation_steps=$parts")
