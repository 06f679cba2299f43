#!/usr/bin/env bash
# Of several checkpoints the results of one cannot be written: it is told of that one, the others are there, and the program
# ends with an error.
#   unwritten_results.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$bin/create_records" --format shapes --num_images 4 --label_map data/label_map.pbtxt --output data/train.record
"$bin/create_records" --format shapes --num_images 2 --seed 1 --label_map data/label_map.pbtxt --output data/test.record
"$bin/train_detector" --pipeline_config "$config" --data_dir data --model_dir run --num_train_steps 2 --train_batch_size 2 --checkpoint_every_n 1

mkdir -p results/eval/metrics_1.json/in_the_way
code=0
"$bin/eval_detector" --checkpoint_dir run --model_dir results --all >text 2>log || code=$?
[ "$code" = 3 ] || { cat log; echo "exit code $code"; exit 1; }
grep -q 'ckpt-1.*results cannot be written to' log || { cat log; echo "nothing is said of the first"; exit 1; }
grep -q 'ckpt-2.*results in' log || { cat log; echo "the second is said to be unwritten"; exit 1; }
[ -s results/eval/metrics_2.json ] || { echo "the second is not written"; exit 1; }
grep -q 'metrics_1.json: cannot be put in place' log || { cat log; echo "no reason is given"; exit 1; }
