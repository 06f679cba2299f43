#!/usr/bin/env bash
# What only a GPU can show: operators and steps there beside the CPU, the kernels under compute-sanitizer, the rates of all operators and
# of whole steps. Prints a report that is fit for bench/results.
# usage: scripts/gpu_check.sh [BUILD_DIR] [CONFIGS]
#   BUILD_DIR  default build/release; built with nvcc and -DOSPREY_BUILD_BENCH=ON
#   CONFIGS    a folder of the TF Object Detection API's configs: whole steps of two of them are timed beside PyTorch's, where python3 has
#              torch and torchvision
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release} configs=${2:-}
command -v nvidia-smi >/dev/null || { echo "gpu_check.sh: no GPU here (nvidia-smi was not found)" >&2; exit 1; }
[ -x "$build/bin/operators_bench" ] || { echo "gpu_check.sh: $build/bin/operators_bench is missing: configure with -DOSPREY_BUILD_BENCH=ON" >&2; exit 1; }
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

echo "# $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1), $(date -u +%F)"
failed=0
echo; echo "## Operators beside the CPU"; echo
"$build/tests/kernels_test" --gtest_filter='Operators.*' || failed=1
echo; echo "## Steps: recorded or not, waiting for nothing; the feed"; echo
"$build/tests/train_test" --gtest_filter='GpuStep.*' || failed=1
if [ -x "$sanitizer" ]; then
  for tool in memcheck racecheck; do
    echo; echo "## compute-sanitizer --tool $tool"; echo
    # Without libtorch's cache of memory, so that what lies behind an allocation is nobody's.
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 "$sanitizer" --tool "$tool" --error-exitcode 9 "$build/tests/kernels_test" --gtest_filter='Operators.GiveOnAGpu*' 2>&1 | tail -n 5 || failed=1
  done
else
  echo "compute-sanitizer was not found: the kernels were not checked"
  failed=1
fi
echo; echo "## Runs of 6 steps beside each other"; echo
# Batch norm is frozen: where it learns, maps of one place make large differences of small ones. Pictures that
# differed by 1e-5 led on a CPU to losses 2e-4 apart in the sixth step.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
losses() { grep -o '"total_loss":[^,]*' "$folder/$1/metrics.jsonl" | cut -d: -f2; }
train() {  # NAME FLAGS...
  "$build/bin/train_detector" --pipeline_config configs/ssd_mobilenet_v1_300x300_bccd.config --use_fake_data --model_dir "$folder/$1" \
    --num_train_steps 6 --log_every_n 1 --precision fp32 --set model.ssd.freeze_batchnorm=true --set eval_input_reader= \
    --set train_input_reader.float_images=true --set train_input_reader.label_map_path= --set train_config.fine_tune_checkpoint= \
    "${@:2}" >"$folder/$1.log" 2>&1 || { tail -n 3 "$folder/$1.log"; failed=1; }
}
beside() {  # NAME OTHER
  paste <(losses "$1") <(losses "$2") | awk -v what="$1 beside $2" '
    { d = $1 > $2 ? $1 - $2 : $2 - $1; d /= $2; if (d > most) most = d }
    END { printf "%s: %d losses, at most %.2g apart\n", what, NR, most; exit !(NR == 6 && most < 1e-3) }' || failed=1
}
train cpu
train one_by_one --device cuda --set train_config.accelerator.cuda_graph=OFF
train recorded --device cuda
resize='train_config.accelerator.resize={max_height:480 max_width:640}'
train resized_on_cpu --set "$resize"
train resized --device cuda --set "$resize"
beside one_by_one cpu
beside recorded one_by_one
beside resized resized_on_cpu
echo; echo "## Real pictures, read while the step is recorded"; echo
"$build/bin/create_records" --format shapes --num_images 400 --seed 1 --label_map "$folder/label_map.pbtxt" --output "$folder/train.record" >/dev/null
"$build/bin/train_detector" --pipeline_config configs/quickstart.config --data_dir "$folder" --model_dir "$folder/shapes" --device cuda \
  --set train_config.accelerator.cuda_graph=ON --set eval_input_reader= --num_train_steps 200 --log_every_n 50 || failed=1
echo; echo "## Operators"; echo
"$build/bin/operators_bench" --device=cuda --benchmark_format=console
echo; echo "## Steps, made-up pictures"; echo
for graph in OFF ON; do
  for precision in fp32 tf32 bf16 fp16; do
    echo "cuda_graph $graph, $precision:"
    "$build/bin/train_detector" --pipeline_config configs/ssd_mobilenet_v1_300x300_bccd.config --use_fake_data --device cuda \
      --precision "$precision" --set "train_config.accelerator.cuda_graph=$graph" --train_batch_size 64 --benchmark_steps 50 || failed=1
  done
done
# steps CONFIG BATCH: images per second of ours, in bfloat16
steps() {
  echo "Osprey, $1, batch $2, bf16:"
  "$build/bin/train_detector" --pipeline_config "$configs/$1" --use_fake_data --device cuda --precision bf16 --train_batch_size "$2" \
    --set train_config.fine_tune_checkpoint= --set train_input_reader.label_map_path= --benchmark_steps 30 || failed=1
}
# peer SCRIPT FLAGS...: the same network by PyTorch, eager and compiled
peer() {
  for mode in "" --compile; do
    # shellcheck disable=SC2086  # one flag or none
    python3 "bench/peers/$1" "${@:2}" --device cuda --bf16 --channels_last --steps 30 $mode || failed=1
  done
}
if [ -n "$configs" ]; then
  echo; echo "## Parts of a step beside what the GPU allows, one by one"; echo
  resnet=$configs/ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync.config
  python3 bench/roofline.py --build "$build" --pipeline_config "$resnet" --device cuda --precision bf16 --batch_size 64 || failed=1
  echo; echo "## Whole steps beside PyTorch"; echo
  steps ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync.config 64
  steps ssd_mobilenet_v1_300x300_coco14_sync.config 1024
  if python3 -c 'import torch, torchvision' 2>/dev/null; then
    peer torchvision_detectors.py retinanet_resnet50_fpn --size 640 --batch_size 64
    peer ssd_mobilenet_v1_pytorch.py --batch_size 1024
  else
    echo "python3 has no torch and torchvision: PyTorch was not timed"
  fi
fi
exit $failed
