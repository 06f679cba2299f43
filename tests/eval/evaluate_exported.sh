#!/usr/bin/env bash
# eval_detector --exported measures what detect finds with the same folder, wherever the training is by then; in tiles, too.
#   evaluate_exported.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() { echo "$*"; cat log; exit 1; }

for set in train test; do
  "$bin/create_records" --format shapes --num_images 3 --label_map data/label_map.pbtxt --output data/$set.record >/dev/null 2>log || fail "records"
done
"$bin/train_detector" --pipeline_config "$config" --data_dir data --model_dir run --num_train_steps 2 --train_batch_size 2 2>log || fail "the training failed"
"$bin/export_model" --pipeline_config run/pipeline.config --checkpoint run --output_dir exported --quantize --calibration_images 2 >told 2>log || fail "the export"
grep -q "model.pt, before it is rounded, agrees" told || fail "$(cat told)"
grep -q "rounded to 8 bits by 2 pictures" told log || fail "$(cat told)"
"$bin/export_model" --pipeline_config run/pipeline.config --checkpoint run --output_dir plain >/dev/null 2>log || fail "the export"
mv run elsewhere

# evaluated FOLDER RESULTS FLAGS...: as many detections as detect finds, with the same flags and the same scores
evaluated() {
  local folder=$1 results=$2
  shift 2
  "$bin/eval_detector" --exported "$folder" --json metrics.json "$@" >/dev/null 2>log || fail "$folder $*: exit code $?"
  grep -q '"step": 2' metrics.json || fail "$(head -5 metrics.json)"
  grep -q Loss metrics.json && fail "losses of an exported model"
  [ -s "$results/metrics_2.json" ] || fail "$results: no results"
  ls "$results"/events.out.tfevents.* >/dev/null || fail "no events"
  "$bin/detect" --model "$folder" --min_score 0 "$@" data/test.record >detected.json 2>log || fail "detect"
  scores() { grep -o '"score": *[0-9.e-]*' "$1" | tr -d ' ' | sort | cut -c1-14; }
  [ -n "$(scores detected.json)" ] || fail "nothing is found"
  diff <(scores detected.json) <(scores "$results/detections_2.json") >&2 || fail "$folder $*: detect finds something else"
}
evaluated plain plain/eval
evaluated exported exported/eval
cmp -s plain/eval/detections_2.json exported/eval/detections_2.json && fail "rounding changes nothing"
evaluated exported exported/eval_tiles_100_0.3 --tile_size 100 --tile_overlap 0.3

# Classes are named by the folder's own map where the config's is not here, and by the config's with a warning where it
# is another; and what a training writes elsewhere is left to it.
"$bin/eval_detector" --exported plain --set 'eval_input_reader[0].label_map_path=nowhere.pbtxt' --set eval_config.export_path=found.json >/dev/null 2>log || fail "without a label map"
[ ! -e found.json ] || fail "export_path is written"
sed 's/name: "/name: "a /' data/label_map.pbtxt >data/things.pbtxt
"$bin/eval_detector" --exported plain --set 'eval_input_reader[0].label_map_path=data/things.pbtxt' >/dev/null 2>log || fail "with other names"
grep -q "plain/label_map.pbtxt, which lies beside the checkpoint, has others" log || fail "other names are not said"

# refused CODE WORDS FLAGS...
refused() {
  local code=$1 words=$2 found=0
  shift 2
  "$bin/eval_detector" "$@" >/dev/null 2>log || found=$?
  [ "$found" = "$code" ] || fail "$*: exit code $found"
  grep -qF -- "$words" log || fail "$*: not said: $words"
}
for flags in "--checkpoint elsewhere" "--model_dir elsewhere" --all --watch "--first_step 1"; do refused 2 excludes --exported plain $flags; done
refused 2 excludes --exported plain --ground_truth a.json --detections b.json
refused 3 "nowhere: no exported model is there" --exported nowhere
refused 3 "model_card.json: cannot be read" --exported elsewhere
