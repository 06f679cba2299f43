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

# Flags of NVIDIA's EfficientDet.
refused "eval_every_n_epochs" train_detector --model_dir "$folder/run" --training_mode=train300
refused "manual_step_learning_rate has no such part" train_detector --model_dir "$folder/run" --lr 0.1 \
  --set 'train_config.optimizer.momentum_optimizer.learning_rate={manual_step_learning_rate {initial_learning_rate: 0.1}}'
refused "constant_learning_rate has no such part" train_detector --model_dir "$folder/run" --warmup_value 0.1 \
  --set 'train_config.optimizer.momentum_optimizer.learning_rate={constant_learning_rate {learning_rate: 0.1}}'
refused "train_config.optimizer: must be set" train_detector --model_dir "$folder/run" --lr 0.1 --set train_config.optimizer=
refused excludes train_detector --model_dir "$folder/run" --batch_size 4 --train_batch_size 8
refused excludes train_detector --model_dir "$folder/run" --num_epochs 4 --num_train_steps 8
refused "is not closed" train_detector --model_dir "$folder/run" --hparams "train_config.seed=[1"
refused "--num_examples_per_epoch" train_detector --model_dir "$folder/run" --checkpoint_period 2
refused "is another program's" train_detector --model_dir "$folder/run" --lr 0.1 \
  --set 'train_config.optimizer={custom {[type.googleapis.com/osprey.protos.ConstantLearningRate] {learning_rate: 1}}}'
refused "model_dir" train_detector --benchmark=false
refused "no_such_field" train_detector --model_dir "$folder/run" --hparams train_config.seed=1,train_config.no_such_field=2
shown=$("$bin/train_detector" --pipeline_config "$config" --print_config --batch_size 5 --num_clones 2 --num_epochs 3 \
  --hparams "train_input_reader.label_map_path=it's, train_config.log_every_n_steps=7," --hparams "train_input_reader.tf_record_input_reader.input_path=['a.record', 'b.record'],model.ssd.num_classes=5" \
  --val_file_pattern v.record --pretrained_ckpt start --checkpoint_period 2 --num_examples_per_epoch 80 --seed 9 --use_xla --validate=True --lr_tb \
  --lr 0.5 --warmup_epochs 3 --warmup_value 0.25 --training_mode=traineval)
for line in "  batch_size: 10" "  num_epochs: 3" "  seed: 9" "    every_n_steps: 16" "  log_every_n_steps: 7" 'input_path: "b.record"' \
  "learning_rate_base: 0.5" "warmup_steps: 24" "warmup_learning_rate: 0.25" 'input_path: "v.record"' 'fine_tune_checkpoint: "start"' "    num_classes: 5"; do
  [[ $shown == *"$line"* ]] || { echo "expected '$line' in $shown"; exit 1; }
done
[[ $shown != *num_steps* ]] || { echo "--num_epochs: $shown"; exit 1; }
shown=$("$bin/train_detector" --pipeline_config "$config" --print_config --backbone_init classifier)
[[ $shown == *'fine_tune_checkpoint: "classifier"'* && $shown == *'fine_tune_checkpoint_type: "classification"'* ]] || { echo "--backbone_init: $shown"; exit 1; }
shown=$("$bin/train_detector" --pipeline_config "$config" --use_fake_data --train_batch_size 2 --benchmark --benchmark_steps 2 --set_num_threads 1 2>/dev/null)
[[ $shown == *'"steps":2,'* ]] || { echo "--benchmark: $shown"; exit 1; }

# What is only listed otherwise.
ignored=(--set 'graph_rewriter={quantization {symmetric: true}}')
"$bin/inspect_pipeline" --pipeline_config "$config" "${ignored[@]}" >/dev/null
refused graph_rewriter inspect_pipeline --strict "${ignored[@]}"
