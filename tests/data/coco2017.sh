#!/usr/bin/env bash
# scripts/coco2017.sh on a small copy of the site: it fetches, unpacks, makes records, goes on with what came in part, and does nothing
# where all is there.   coco2017.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
for program in curl unzip; do
  command -v $program >/dev/null || { echo "skipped: no $program here"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
site=$folder/site data=$folder/data
mkdir -p "$site"/{annotations,zips} "$folder/make/annotations"
cd "$folder/make"
for split in train val; do
  mkdir ${split}2017
  images= annotations=
  for id in 1 2 3; do
    cp "$source/docs/images/quickstart.jpg" ${split}2017/$id.jpg
    images+="{\"id\": $id, \"file_name\": \"$id.jpg\", \"width\": 900, \"height\": 600},"
    annotations+="{\"id\": $id, \"image_id\": $id, \"category_id\": 3, \"bbox\": [10, 20, 30, 40], \"area\": 1200, \"iscrowd\": 0},"
  done
  echo "{\"images\": [${images%,}], \"annotations\": [${annotations%,}], \"categories\": [{\"id\": 1, \"name\": \"person\"}, {\"id\": 3, \"name\": \"dog\"}]}" \
    >annotations/instances_${split}2017.json
  python3 -m zipfile -c "$site/zips/${split}2017.zip" ${split}2017
done
python3 -m zipfile -c "$site/annotations/annotations_trainval2017.zip" annotations

run() { COCO_URL="file://$site" "$source/scripts/coco2017.sh" "$data" --build "$build" --train mscoco_train.record:3 --val validation.tfrecord:2; }
mkdir "$data"
head -c 100 "$site/zips/val2017.zip" >"$data/val2017.zip.part"  # as a broken connection leaves it
cp "$site/annotations/annotations_trainval2017.zip" "$data"  # whole, but not unpacked yet
run >"$folder/first.log" 2>&1 || { cat "$folder/first.log"; exit 1; }
for file in mscoco_train.record-0000{0,1,2}-of-00003 validation-0000{0,1}-of-00002.tfrecord mscoco_label_map.pbtxt label_map.txt; do
  [ -s "$data/$file" ] || { cat "$folder/first.log"; ls "$data"; echo "no $file"; exit 1; }
done
grep -q 'id: 3' "$data/mscoco_label_map.pbtxt"
run >"$folder/second.log" 2>&1
[ "$(wc -l <"$folder/second.log")" = 1 ] || { echo "not all was there:"; cat "$folder/second.log"; exit 1; }

rm "$data"/train2017.zip* "$site/zips/train2017.zip"
if run >"$folder/third.log" 2>&1; then echo "a file that is not there was fetched"; exit 1; fi
grep -q 'train2017.zip cannot be fetched' "$folder/third.log"
