#!/usr/bin/env bash
# eval_detector over a range of checkpoints, with a gallery of each; ranges without any are refused by name. What is damaged,
# or of another reader, leaves the other results alone.
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
refused 2 "gallery_images: must be <= 200, got 300" --gallery 300
refused 2 "Could not convert: --first_step = 2.5" --first_step 2.5

# Two files of COCO have nothing to do with what is for checkpoints.
for flag in --gallery=3 --checkpoint=run --checkpoint_dir=run --model_dir=run --all --first_step=1 --last_step=3 --watch --eval_timeout=3 \
  --sample_1_of_n_eval_examples=2 --eval_reader=1 --skip_bad_records --tile_size=50 --device=cpu --pipeline_config="$config" --strict \
  --set=train_config.batch_size=2 --config_override=model{} --data_dir=data; do
  found=0
  "$bin/eval_detector" --ground_truth a.json --detections b.json "$flag" >/dev/null 2>log || found=$?
  [ "$found" = 2 ] && grep -q -- "--ground_truth excludes ${flag%%=*}\|${flag%%=*}.* excludes --ground_truth" log || fail "$flag with --ground_truth: exit code $found"
done

# A checkpoint that is damaged does not keep others from being evaluated.
rm -rf results
cp -r run worn
truncate -s 1000 worn/ckpt-2.osprey
code=0
"$bin/eval_detector" --checkpoint_dir worn --model_dir results --all --json json >text 2>log || code=$?
[ "$code" = 3 ] || fail "a damaged checkpoint among others: exit code $code"
[ "$(grep -o '"step": [0-9]*' json | grep -o '[0-9]*' | tr '\n' ' ')" = "1 3 4 " ] && [ "$(grep -c '^step ' text)" = 3 ] || fail "the others are not shown: $(cat text)"
[ ! -e results/eval/metrics_2.json ] && [ -s results/eval/metrics_4.json ] || fail "results beside a damaged checkpoint"
grep -q '^eval_detector: 1 checkpoint was not evaluated; .*worn/ckpt-2.osprey' log || fail "it is not named"
rm json
code=0
"$bin/eval_detector" --checkpoint_dir worn --model_dir results --first_step 2 --last_step 2 --json json >text 2>log || code=$?
[ "$code" = 3 ] && [ ! -s text ] && [ ! -e json ] || fail "a damaged one alone: exit code $code"
refused 2 "ckpt-1.osprey" --all --set model.ssd.feature_extractor.depth_multiplier=0.5  # another model

# Nor does it end --watch, which waits for the next.
rm -rf results worn/checkpoint worn/ckpt-[34].osprey
"$bin/eval_detector" --checkpoint_dir worn --model_dir results --watch --eval_timeout 120 >text 2>log &
watching=$!
for ((i = 0; i < 600; ++i)); do
  grep -q 'ckpt-2.osprey.*it is not evaluated' log && break
  sleep 0.1
done
cp run/ckpt-4.osprey worn/ckpt-4.part
mv worn/ckpt-4.part worn/ckpt-4.osprey
code=0
wait "$watching" || code=$?
[ "$code" = 3 ] || fail "--watch beside a damaged checkpoint: exit code $code"
[ "$(grep -c 'it is not evaluated' log)" = 1 ] && [ -s results/eval/metrics_4.json ] || fail "--watch ended at a damaged checkpoint"

# The results of several readers stand beside each other.
reader='tf_record_input_reader { input_path: "data/train.record" }'
"$bin/eval_detector" --checkpoint_dir run --model_dir results --eval_reader 1 --set "eval_input_reader+=name: 'night' $reader" --json night.json >/dev/null 2>log || fail "--eval_reader: exit code $?"
grep -qF 'eval_input_reader[1] (night) is evaluated' log || fail "the reader is not named"
grep -q '"num_images": 4' results/eval/night/metrics_4.json || fail "no results of the second reader"
ls results/eval/night/events.out.tfevents.* >/dev/null || fail "no events of the second reader"
grep -q '"num_images": 3' results/eval/metrics_4.json || fail "the second reader replaces the results of the first"
refused 2 "eval_input_reader[1].name" --eval_reader 1 --set "eval_input_reader+=name: '../train' $reader"
refused 2 "has 1 entries, there is no number 3" --eval_reader 3
