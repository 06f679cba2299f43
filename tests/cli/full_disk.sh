#!/usr/bin/env bash
# The error that a full disk is gets to the user, though the log lies on that disk, too.
#   full_disk.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# A limit on the size of files stands for the end of the disk: the log has 600 bytes left, a checkpoint too few.
mkdir run
head -c $((4096 * 1024 - 600)) /dev/zero >run/train.log
code=0
said=$(trap '' XFSZ && ulimit -f 4096 && "$bin/train_detector" --pipeline_config "$config" --use_fake_data --model_dir run --num_train_steps 1 \
  --train_batch_size 2 --set train_input_reader.label_map_path= 2>&1) || code=$?
[ "$code" = 3 ] && [[ $said == *"cannot be written"* ]] || { echo "exit code $code: $said"; exit 1; }
