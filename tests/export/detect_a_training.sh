#!/usr/bin/env bash
# detect finds the same with a model directory, with a checkpoint in it and with what export_model makes of it; what it
# cannot look at, or write, it says.
#   detect_a_training.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$bin/create_records" --format shapes --num_images 6 --label_map data/label_map.pbtxt --output data/train.record
"$bin/create_records" --format shapes --num_images 3 --seed 1 --label_map data/label_map.pbtxt --output data/test.record
"$bin/train_detector" --pipeline_config "$config" --data_dir data --model_dir run --num_train_steps 2 --train_batch_size 2 \
  --set train_config.checkpoint.keep_best.metric=Loss/total_loss
"$bin/export_model" --pipeline_config run/pipeline.config --checkpoint run --output_dir exported --parity_images 1

export TMPDIR=$folder/tmp
mkdir tmp
for model in exported exported/model.pt run run/ckpt-2.osprey run/ckpt-2 run/best run/best/ckpt-2.osprey; do
  "$bin/detect" --model $model --min_score 0 --output_dir "drawn-${model//\//-}" data/test.record | sed '/"drawn"/d' >found.json
  [ -e expected.json ] || cp found.json expected.json
  cmp found.json expected.json || { echo "$model: finds something else than exported"; exit 1; }
done
cp data/test.record data/same.tfrecord
"$bin/detect" --model exported --min_score 0 --output_dir drawn-tfrecord data/same.tfrecord | sed '/"drawn"/d; s/same.tfrecord/test.record/' | cmp - expected.json
grep -q '"score"' expected.json || { echo "nothing was found at all"; exit 1; }
[ "$(find drawn-run -name '*.jpg' | wc -l)" = 3 ] || { echo "not every picture was drawn"; exit 1; }
[ -z "$(ls tmp)" ] || { echo "left behind: $(ls tmp)"; exit 1; }

# Where another project's data have the names of ours, the classes are still called as in the training.
mkdir -p other/data
sed 's/name: "/&not_/' data/label_map.pbtxt >other/data/label_map.pbtxt
if cmp -s data/label_map.pbtxt other/data/label_map.pbtxt; then echo "the other names are ours"; exit 1; fi
(cd other && "$bin/detect" --model ../run --min_score 0 --output_dir drawn ../data/test.record) | sed '/"drawn"/d; s,\.\./,,' | cmp - expected.json
said=$(cd other && "$bin/export_model" --pipeline_config ../run/pipeline.config --checkpoint ../run --output_dir exported --noonnx --parity_images 1 2>&1)
[[ $said == *"../run/label_map.pbtxt, which lies beside the checkpoint, has others"* ]] || { echo "other names without a word: $said"; exit 1; }

# The best checkpoint has what it takes to be evaluated, exported and served, also elsewhere; the training stays as it is.
before=$(cat run/pipeline.config run/label_map.pbtxt | cksum)
code=0
said=$("$bin/export_model" --pipeline_config run/pipeline.config --checkpoint run/best --output_dir run 2>&1) || code=$?
[ "$code" = 2 ] && [[ $said == *"is the folder of a training"* ]] || { echo "exported over a training: exit code $code: $said"; exit 1; }
[ "$before" = "$(cat run/pipeline.config run/label_map.pbtxt | cksum)" ] || { echo "the training's files were written over"; exit 1; }
for checkpoint in "--checkpoint_dir run/best" "--checkpoint run/best/ckpt-2.osprey"; do
  said=$("$bin/eval_detector" $checkpoint 2>&1) || { echo "eval_detector $checkpoint: $said"; exit 1; }
done
[ -e run/best/eval/metrics_2.json ] || { echo "no results: $(ls run/best run/best/eval)"; exit 1; }
mkdir alone
cp -r run/best alone/best
(cd alone && "$bin/export_model" --pipeline_config best/pipeline.config --checkpoint best --output_dir exported --noonnx --parity_images 1)
cmp alone/exported/label_map.pbtxt run/label_map.pbtxt

# A picture that cannot be drawn (70000 x 20; a JPEG has at most 65535) is named, the others go on.
mkdir $'pictures\xe9'
base64 -d >$'pictures\xe9/1.png' <<'EOF'
iVBORw0KGgoAAAANSUhEUgABEXAAAAAUAQAAAACJI9POAAAAwElEQVR42u3BMQEAAADCoPVPbQo/oAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADga6vKAAGT875aAAAAAElFTkSuQmCC
EOF
cp "$(find drawn-run -name '*.jpg' | head -1)" $'pictures\xe9/2.jpg'
code=0
said=$("$bin/detect" --model exported --json found.json --output_dir drawn pictures* 2>&1) || code=$?
[ "$code" = 3 ] && [[ $said == *1.png:*JPEG* ]] && [ -e drawn/2.jpg ] || { echo "exit code $code: $said"; exit 1; }
grep -q 2.jpg found.json || { echo "the other picture is not in the list"; exit 1; }

# No picture is drawn over another that is still to be looked at, whichever comes first.
cp data/test.record $'pictures\xe9/3.record'
cp $'pictures\xe9/2.jpg' 3.jpg
code=0
said=$("$bin/detect" --model exported --output_dir . $'pictures\xe9/3.record' 3.jpg 2>&1) || code=$?
[ "$code" = 2 ] && [[ $said == *"is an input picture"* ]] || { echo "drawn over an input: exit code $code: $said"; exit 1; }
cmp 3.jpg $'pictures\xe9/2.jpg'

# In tiles something else is found, on every picture; a tile of the size of the picture is the picture.
"$bin/detect" --model exported --min_score 0 --tile_size 100 --tile_overlap 0.3 data/test.record >tiles.json
[ "$(grep -c '"file"' tiles.json)" = 3 ] && ! cmp -s expected.json tiles.json || { echo "tiles: $(cat tiles.json)"; exit 1; }
"$bin/detect" --model exported --min_score 0 --tile_size 4000 --output_dir drawn-whole data/test.record | sed "/\"drawn\"/d" | cmp - expected.json

# What cannot be written is said before the work.
for flags in "--json no/such/folder.json" "--output_dir exported/model.pt/x"; do
  code=0
  said=$("$bin/detect" --model exported $flags data/test.record 2>&1) || code=$?
  [ "$code" = 3 ] || { echo "$flags: exit code $code: $said"; exit 1; }
done
for flags in "--min_score nan" "--min_score 2" "--max_images -1" "--device gpu" "--tile_size 0" "--tile_overlap 0.5" "--tile_size 50 --tile_overlap 1" \
  "--tile_size 50 --benchmark 2"; do
  code=0
  said=$("$bin/detect" --model exported $flags data/test.record 2>&1) || code=$?
  [ "$code" = 2 ] || { echo "$flags: exit code $code: $said"; exit 1; }
done

rm run/ckpt-2.osprey
code=0
said=$("$bin/detect" --model run data/test.record 2>&1) || code=$?
[ "$code" = 3 ] || { echo "without a checkpoint: exit code $code: $said"; exit 1; }
[[ $said == *run* && -z $(ls tmp) ]] || { echo "without a checkpoint: $said"; exit 1; }
