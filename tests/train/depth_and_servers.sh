#!/usr/bin/env bash
# The depth of a ResNet is a flag of two names; parameter servers are refused in words.
#   depth_and_servers.sh BUILD_FOLDER CONFIG_FOLDER
set -euo pipefail
train=$1/bin/train_detector configs=$2

type_with() { "$train" --pipeline_config "$configs/ssd_resnet18_v1_fpn_192x192_bccd.config" --print_config "$@" | sed -nE 's,^ +type: "([^"]*)".*,\1,p'; }
for flag in --resnet_depth --resnet_size; do
  for depth in 18 34 50 101 152 200; do
    found=$(type_with $flag $depth)
    [ "$found" = "ssd_resnet${depth}_v1_fpn" ] || { echo "$flag $depth: $found"; exit 1; }
  done
done

# refused WORDS CONFIG FLAGS...: exit code 2, and one line with these words
refused() {
  local words=$1 config=$2 code=0 said
  shift 2
  said=$("$train" --pipeline_config "$configs/$config" --print_config "$@" 2>&1) || code=$?
  [ "$code" = 2 ] || { echo "$*: exit code $code"; exit 1; }
  [[ $said == *"$words"* ]] || { echo "$*: $said"; exit 1; }
}
refused "ssd_mobilenet_v1', not a ResNet" ssd_mobilenet_v1_300x300_bccd.config --resnet_depth 50
refused "51 not in" ssd_resnet18_v1_fpn_192x192_bccd.config --resnet_depth 51
refused "no parameter servers" quickstart.config --ps_tasks 1
"$train" --pipeline_config "$configs/quickstart.config" --print_config --ps_tasks 0 --worker_job_name worker >/dev/null
