#!/usr/bin/env bash
# Fetches COCO 2017 (https://cocodataset.org, 20 GB) and makes records of it, with the names that the configs of the TF Object
# Detection API have: then train_detector --pipeline_config ITS.config --data_dir DIR needs no other path but
# fine_tune_checkpoint (--set train_config.fine_tune_checkpoint= starts from random weights), for the configs that name .record files.
#   scripts/coco2017.sh DIR [--train NAME:SHARDS] [--val NAME:SHARDS] [--build build/release]
# --train  default mscoco_train.record:100     --val  default mscoco_val.record:10
# The configs of the TF2 zoo want --train train2017.tfrecord:256 --val val2017.tfrecord:32 (train2017-00000-of-00256.tfrecord ...).
# Ends at once what is there already, and goes on with a file that came in part. About 60 GB of disk; the pictures (DIR/train2017,
# DIR/val2017) and zip files may go afterwards. COCO_URL is another place to fetch from, COCO_JOBS how many threads make records.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "coco2017.sh: $1" >&2; exit "${2:-3}"; }
[ $# -ge 1 ] && [[ $1 != -* ]] || usage
folder=$1 train=mscoco_train.record:100 val=mscoco_val.record:10 build=$here/build/release
shift
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case "$1" in
    --train) train=$2 ;;
    --val) val=$2 ;;
    --build) build=$2 ;;
    *) usage ;;
  esac
  shift 2
done
for shards in "${train##*:}" "${val##*:}"; do
  [[ $shards =~ ^[1-9][0-9]*$ ]] || fail "'$shards' is no number of shards (NAME:SHARDS)" 2
done
for program in curl unzip; do
  command -v $program >/dev/null || fail "needs $program (apt-get install $program)" 2
done
[ -x "$build/bin/create_records" ] || fail "$build/bin/create_records is not there; build first (README.md), or say where: --build" 2
url=${COCO_URL:-http://images.cocodataset.org}
mkdir -p "$folder"

# fetch PATH: one zip file of the site, unpacked into the folder; what it holds is there only when all of it is
fetch() {
  local zip=$folder/$(basename "$1")
  [ -e "$zip.unpacked" ] && return
  echo "coco2017.sh: fetching $url/$1"
  if [ ! -e "$zip" ]; then  # a file of that name is whole
    curl --fail --location --silent --show-error --continue-at - --output "$zip.part" "$url/$1" ||
      fail "$url/$1 cannot be fetched; run this again to go on"
    mv "$zip.part" "$zip"
  fi
  unzip -q -o "$zip" -d "$folder" || fail "$zip cannot be unpacked (damaged, or no space left on the disk?); remove it and run this again"
  touch "$zip.unpacked"
}

# records SPLIT NAME:SHARDS
records() {
  local name=${2%:*} shards=${2##*:} ending=""
  [[ $name == *.tfrecord ]] && ending=.tfrecord name=${name%.tfrecord}
  [ -e "$folder/$(printf '%s-%05d-of-%05d%s' "$name" $((shards - 1)) "$shards" "$ending")" ] && return
  echo "coco2017.sh: $name, $shards files"
  "$build/bin/create_records" --format coco --input "$folder/annotations/instances_${1}2017.json" --image_dir "$folder/${1}2017" \
    --label_map "$folder/mscoco_label_map.pbtxt" --num_shards "$shards" \
    --output "$folder/$name${ending:+$(printf -- '-?????-of-%05d%s' "$shards" "$ending")}" ${COCO_JOBS:+--num_workers "$COCO_JOBS"}
}

fetch annotations/annotations_trainval2017.zip
fetch zips/val2017.zip
records val "$val"
fetch zips/train2017.zip
records train "$train"
[ -e "$folder/label_map.txt" ] || cp "$folder/mscoco_label_map.pbtxt" "$folder/label_map.txt"  # as the TF2 zoo's configs call it
echo "coco2017.sh: done. $folder holds the records and mscoco_label_map.pbtxt; train with --data_dir $folder"
