#!/usr/bin/env bash
# eval_detector over a range of checkpoints, with a gallery of each; ranges without any are refused by name.
#   checkpoint_range.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() { echo "$*"; cat log; exit 1; }

"$bin/create_records" --format shapes --num_images 4 --label_map data/label_map.pbtxt --output data/train.record
"$bin/create_records" --format shapes --num_images 3 --seed 1 --label_map data/label_map.pbtxt --output data/test.record
"$bin/train_detector" --pipeline_config "$config" --data_dir data --model_dir run --num_train_steps 4 --train_batch_size 2 --checkpoint_every_n 1 \
  --set train_config.checkpoint.keep_last=4 --set eval_config.eval_every_n_steps=2 --set eval_config.gallery_images=2 2>log || fail "the training failed"
[ -s run/eval/gallery_4/index.html ] || fail "the training's evaluation has no gallery"
[ ! -e run/eval/gallery_3 ] || fail "a gallery at a step without evaluation"

# evaluated STEPS FLAGS...: exactly these steps are evaluated, in this order, each with its files
evaluated() {
  local steps=$1
  shift
  rm -rf results
  "$bin/eval_detector" --checkpoint_dir run --model_dir results --gallery 1 --json "$@" >json 2>log || fail "$*: exit code $?"
  [ "$(grep -o '"step": [0-9]*' json | grep -o '[0-9]*' | tr '\n' ' ')" = "$steps " ] || fail "$*: not the steps $steps"
  [ "$(find results/eval -name 'metrics_*.json' | wc -l)" = "$(wc -w <<<"$steps")" ] || fail "$*: metrics files"
  for step in $steps; do
    [ -s "results/eval/gallery_$step/worst_01.jpg" ] && [ ! -e "results/eval/gallery_$step/worst_02.jpg" ] || fail "$*: gallery of $step"
  done
}
evaluated "2 3" --first_step 2 --last_step 3
evaluated "4" --first_step 4
evaluated "1 2" --last_step 2
evaluated "1 2 3 4" --first_step 0
evaluated "1 2 3 4" --all
[ "$(head -c 1 json)" = "[" ] || fail "--json is no list"

# refused CODE WORDS FLAGS...
refused() {
  local code=$1 words=$2 found=0
  shift 2
  "$bin/eval_detector" --checkpoint_dir run --model_dir results "$@" >/dev/null 2>log || found=$?
  [ "$found" = "$code" ] || fail "$*: exit code $found"
  grep -qF -- "$words" log || fail "$*: not said: $words"
}
refused 3 "run: there is no checkpoint from step 7 to 9; there are those of step 1, 2, 3, 4" --first_step 7 --last_step 9
refused 3 "from step 5 on" --first_step 5
refused 2 "--first_step 3 lies behind --last_step 2" --first_step 3 --last_step 2
refused 2 "excludes" --first_step 3 --all
refused 2 "excludes" --last_step 3 --watch
refused 2 "excludes" --last_step 3 --checkpoint run/ckpt-1
refused 2 "excludes" --gallery 3 --ground_truth a.json --detections b.json
refused 2 "gallery_images: must be <= 200, got 300" --gallery 300
refused 2 "Could not convert: --first_step = 2.5" --first_step 2.5
