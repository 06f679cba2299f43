#!/usr/bin/env bash
# Flags that a program could not obey are refused in words.
#   refused_flags.sh BUILD_FOLDER PIPELINE_CONFIG
set -euo pipefail
bin=$1/bin config=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# refused WORDS PROGRAM FLAGS...: exit code 2, and these words on stderr
refused() {
  local words=$1 program=$2 code=0 said
  shift 2
  said=$("$bin/$program" --pipeline_config "$config" "$@" 2>&1 >/dev/null) || code=$?
  [ "$code" = 2 ] || { echo "$program $*: exit code $code: $said"; exit 1; }
  [[ $said == *"$words"* ]] || { echo "$program $*: $said"; exit 1; }
}

refused excludes train_detector --dry_run --benchmark_steps 2
refused requires train_detector --model_dir "$folder/run" --trace "$folder/trace.json"
refused excludes train_detector --print_config --clone_on_cpu --device cuda
for master in localhost localhost: localhost:x localhost:29611xyz localhost:0 localhost:65536 localhost:99999999999; do
  refused "must be HOST:PORT" train_detector --model_dir "$folder/run" --use_fake_data --train_batch_size 4 --num_clones 2 --master $master
done

# Flags of the original's trainers.
refused "eval_detector" train_detector --model_dir "$folder/run" --checkpoint_dir "$folder/run"
refused "no TPUs" train_detector --model_dir "$folder/run" --use_tpu
refused "--num_clones" train_detector --model_dir "$folder/run" --num_workers 2
shown=$("$bin/train_detector" --pipeline_config "$config" --print_config --use_tpu=False --eval_on_train_data=no --record_summaries --sample_1_of_n_eval_examples 5)
[[ $shown == *"sample_1_of_n_examples: 5"* ]] || { echo "--sample_1_of_n_eval_examples: $shown"; exit 1; }

# What is only listed otherwise.
ignored=(--set 'graph_rewriter={quantization {symmetric: true}}')
"$bin/inspect_pipeline" --pipeline_config "$config" "${ignored[@]}" >/dev/null
refused graph_rewriter inspect_pipeline --strict "${ignored[@]}"
