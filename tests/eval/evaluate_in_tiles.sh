#!/usr/bin/env bash
# eval_detector --tile_size beside the plain evaluation: tiles no smaller than the pictures give the same to the last bit,
# smaller ones something else, neither replaces the other; and records of tiles are what a training takes.
#   evaluate_in_tiles.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() { echo "$*"; cat log; exit 1; }

"$bin/create_records" --format shapes --num_images 4 --tile_size 100 --tile_overlap 0.3 --label_map data/label_map.pbtxt --output data/train.record >made 2>log || fail "records of tiles"
grep -q "^36 tiles and 4 whole ones of 4 pictures with [0-9]* objects in 1 file" made || fail "$(cat made)"
grep -q "cut boxes, of which less than 0.5 lies in the tile, are no objects there" made || fail "$(cat made)"
"$bin/create_records" --format shapes --num_images 3 --seed 1 --label_map data/label_map.pbtxt --output data/test.record >/dev/null 2>log
"$bin/check_dataset" --pipeline_config "$config" --data_dir data --strict >checked 2>log || fail "check_dataset: exit code $?"
grep -q "records 40, pictures 40, boxes [0-9]* ([0-9]* of weight 0, of which nothing is learnt)" checked || fail "$(cat checked)"
"$bin/train_detector" --pipeline_config "$config" --data_dir data --model_dir run --num_train_steps 2 --train_batch_size 2 \
  --set eval_config.batch_size=1 --set eval_config.export_path=found.json --set eval_config.gallery_images=1 2>log || fail "the training failed"

"$bin/eval_detector" --model_dir run --json plain.json >plain.txt 2>log || fail "exit code $?"
cp found.json found-plain.json
tiled() { "$bin/eval_detector" --model_dir run --json tiles.json "$@" >tiles.txt 2>log || fail "$*: exit code $?"; }
tiled --tile_size 4000
diff <(grep -v Loss plain.txt) <(grep -v Loss tiles.txt) >&2 || fail "the summary of a tile that is the picture"
cmp run/eval/detections_2.json run/eval_tiles_4000_0.2/detections_2.json || fail "the detections of a tile that is the picture"
tiled --tile_size 100 --tile_overlap 0.3
grep -q '"tile_size": 100' tiles.json || fail "$(head -20 tiles.json)"
cmp -s run/eval/detections_2.json run/eval_tiles_100_0.3/detections_2.json && fail "tiles find nothing else"
[ -s run/eval_tiles_100_0.3/metrics_2.json ] && [ -s run/eval_tiles_100_0.3/gallery_2/index.html ] || fail "results of tiles"
ls run/eval_tiles_100_0.3/events.out.tfevents.* >/dev/null || fail "no events"
cmp found.json found-plain.json || fail "export_path holds what tiles have found"

# What tiles find is what detect finds with the same flags.
"$bin/detect" --model run --min_score 0 --tile_size 100 --tile_overlap 0.3 data/test.record >detected.json 2>log || fail "detect"
detected=$(grep -c '"score"' detected.json) evaluated=$(grep -c '"score"' run/eval_tiles_100_0.3/detections_2.json)
[ "$detected" = "$evaluated" ] || fail "detect finds $detected, eval_detector $evaluated"

# refused CODE WORDS PROGRAM FLAGS...
refused() {
  local code=$1 words=$2 program=$3 found=0
  shift 3
  "$bin/$program" "$@" >/dev/null 2>log || found=$?
  [ "$found" = "$code" ] || fail "$program $*: exit code $found"
  grep -qF -- "$words" log || fail "$program $*: not said: $words"
}
for size in 0 -5 nan 1.5 x; do refused 2 --tile_size eval_detector --model_dir run --tile_size $size; done
for overlap in 1 -0.1 nan; do refused 2 --tile_overlap eval_detector --model_dir run --tile_size 50 --tile_overlap $overlap; done
refused 2 requires eval_detector --model_dir run --tile_overlap 0.3
refused 2 excludes eval_detector --tile_size 50 --ground_truth a.json --detections b.json
make=(create_records --format shapes --label_map data/label_map.pbtxt --output new.record)
for size in 0 -5 nan 1.5 x; do refused 2 --tile_size "${make[@]}" --tile_size $size; done
for overlap in 1 -0.1 nan; do refused 2 --tile_overlap "${make[@]}" --tile_size 50 --tile_overlap $overlap; done
for share in 1.5 -1 nan; do
  refused 2 --tile_min_visible "${make[@]}" --tile_size 50 --tile_min_visible $share
  refused 2 --tile_background "${make[@]}" --tile_size 50 --tile_background $share
done
for flags in "--tile_overlap 0.3" "--tile_min_visible 0.3" "--tile_background 0.3" --tiles_only; do refused 2 requires "${make[@]}" $flags; done
[ ! -e new.record ] || fail "a refused command has written"
