#!/usr/bin/env bash
# What only a GPU can show: operators and steps there beside the CPU, the kernels under compute-sanitizer, the rates of all operators and
# of whole steps. Prints a report that is fit for bench/results; ends with 1 where something failed.
# usage: scripts/gpu_check.sh [--build DIR] [--configs DIR] [PART...]
#   --build DIR    default build/release; built with nvcc and -DOSPREY_BUILD_BENCH=ON
#   --configs DIR  of the TF Object Detection API's configs: for `memory`, `traces`, `roofline` and `peers`, which are left out without
#   PART           of: operators steps sanitizer runs pictures policies rates precisions curves memory traces roofline peers; default: all of them, in this order
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release configs='' parts=()
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?} && shift ;;
    --configs) configs=${2:?} && shift ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0" && exit 0 ;;
    operators | steps | sanitizer | runs | pictures | policies | rates | precisions | curves | memory | traces | roofline | peers) parts+=("$1") ;;
    *) echo "gpu_check.sh: unknown part '$1' (try --help)" >&2 && exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(operators steps sanitizer runs pictures policies rates precisions curves memory traces roofline peers)
command -v nvidia-smi >/dev/null || { echo "gpu_check.sh: no GPU here (nvidia-smi was not found)" >&2; exit 1; }
[ -x "$build/bin/operators_bench" ] || { echo "gpu_check.sh: $build/bin/operators_bench is missing: configure with -DOSPREY_BUILD_BENCH=ON" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
readonly resnet=ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync.config mobilenet=ssd_mobilenet_v1_300x300_coco14_sync.config
failed=0

# tests PROGRAM FILTER: there are some, and none of them may be skipped
tests() {
  "$build/tests/$1" --gtest_filter="$2" 2>&1 | tee "$folder/tests.log" || failed=1
  grep -q '^\[ RUN' "$folder/tests.log" || { echo "no test of $1 is called $2"; failed=1; }
  ! grep -q SKIPPED "$folder/tests.log" || { echo "tests were skipped: libtorch sees no GPU"; failed=1; }
}

# Operators beside the CPU.
operators() { tests kernels_test 'Operators.GiveOnAGpu*'; }

# Steps: recorded or not, waiting for nothing; the feed.
steps() { tests train_test 'GpuStep.*'; }

# The kernels under compute-sanitizer, without libtorch's cache of memory, so that what lies behind an allocation is nobody's. Only ours are
# looked at; but what memory has been written to is known only where all are, and then libraries' kernels are reported, too, which do not count.
sanitizer() {
  local program tool only
  program=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [ ! -x "$program" ]; then
    echo "compute-sanitizer was not found: the kernels were not checked"
    failed=1
    return
  fi
  for tool in memcheck racecheck initcheck synccheck; do
    only=(--kernel-regex kns=run_blocks)
    [ $tool != initcheck ] || only=()
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 "$program" --tool "$tool" --target-processes all "${only[@]}" --error-exitcode 9 "$build/tests/kernels_test" \
      --gtest_filter='Operators.GiveOnAGpu*' >"$folder/$tool.log" 2>&1 || touch "$folder/$tool.failed" &
  done
  wait
  for tool in memcheck racecheck initcheck synccheck; do
    echo "$tool:"
    [ ! -e "$folder/$tool.failed" ] || [ $tool = initcheck ] || failed=1
    [ $tool != initcheck ] || ! grep -B3 -A12 run_blocks "$folder/$tool.log" || failed=1
    tail -n 5 "$folder/$tool.log"
  done
}

# train NAME FLAGS...: six steps; batch norm is frozen: where it learns, maps of one place make large differences of small ones. Pictures
# that differed by 1e-5 led on a CPU to losses 2e-4 apart in the sixth step.
train() {
  "$build/bin/train_detector" --pipeline_config configs/ssd_mobilenet_v1_300x300_bccd.config --use_fake_data --model_dir "$folder/$1" \
    --num_train_steps 6 --log_every_n 1 --precision fp32 --set model.ssd.freeze_batchnorm=true --set eval_input_reader= \
    --set train_input_reader.float_images=true --set train_input_reader.label_map_path= --set train_config.fine_tune_checkpoint= \
    "${@:2}" >"$folder/$1.log" 2>&1 || { tail -n 3 "$folder/$1.log"; failed=1; }
}
losses() { grep -o '"total_loss":[^,]*' "$folder/$1/metrics.jsonl" | cut -d: -f2; }
# beside NAME OTHER: how far apart their losses are
beside() {
  paste <(losses "$1") <(losses "$2") | awk -v what="$1 beside $2" '
    { d = $1 > $2 ? $1 - $2 : $2 - $1; d /= $2; if (d > most) most = d }
    END { printf "%s: %d losses, at most %.2g apart\n", what, NR, most; exit !(NR == 6 && most < 1e-3) }' || failed=1
}

# Runs of six steps beside each other.
runs() {
  local resize='train_config.accelerator.resize={max_height:480 max_width:640}'
  train cpu --device cpu
  train one_by_one --device cuda --set train_config.accelerator.cuda_graph=OFF
  train recorded --device cuda
  train resized_on_cpu --device cpu --set "$resize"
  train resized --device cuda --set "$resize"
  beside one_by_one cpu
  beside recorded one_by_one
  beside resized resized_on_cpu
}

# shapes COUNT SEED NAME: pictures of made-up shapes in a record
shapes() {
  "$build/bin/create_records" --format shapes --num_images "$1" --seed "$2" --label_map "$folder/label_map.pbtxt" \
    --output "$folder/$3.record" >/dev/null || failed=1
}

# Real pictures, read while the step is recorded; what has been trained is evaluated there and on the CPU. After so few steps the mAP of
# 150 pictures is 0.1 to 0.25; a detection that falls on the other side of a threshold moves it by less than 0.002.
pictures() {
  local device
  shapes 2000 1 train
  shapes 150 2 test
  "$build/bin/train_detector" --pipeline_config configs/quickstart.config --data_dir "$folder" --model_dir "$folder/shapes" --device cuda \
    --set train_config.accelerator.cuda_graph=ON --set eval_input_reader= --num_train_steps 2000 --log_every_n 500 || failed=1
  for device in cpu cuda; do
    "$build/bin/eval_detector" --pipeline_config configs/quickstart.config --data_dir "$folder" --model_dir "$folder/shapes" --device $device \
      --json "$folder/$device.json" >/dev/null || failed=1
  done
  python3 - "$folder/cpu.json" "$folder/cuda.json" <<'END' || failed=1
import json, sys
cpu, cuda = (json.load(open(path))["metrics"] for path in sys.argv[1:])
apart = max(abs(cpu[name] - cuda[name]) for name in cpu if name.startswith("DetectionBoxes_") and cpu[name] is not None)
print(f"mAP of the same checkpoint by CPU {cpu['DetectionBoxes_Precision/mAP']:.4f}, by GPU {cuda['DetectionBoxes_Precision/mAP']:.4f}; "
      f"of COCO's numbers none is more than {apart:.2g} apart")
sys.exit(apart > 2e-3 or cpu["DetectionBoxes_Precision/mAP"] < 0.01)
END
  served
}

# The exported model finds the same there, and how fast.
served() {
  local format device
  for format in channels_last contiguous; do
    "$build/bin/export_model" --pipeline_config "$folder/shapes/pipeline.config" --checkpoint "$folder/shapes" --memory_format $format \
      --output_dir "$folder/$format" >/dev/null || failed=1
  done
  for device in cpu cuda; do
    "$build/bin/detect" --model "$folder/channels_last" --device $device --min_score 0.2 --json "$folder/found_$device.json" "$folder/test.record" || failed=1
  done
  python3 - "$folder/found_cpu.json" "$folder/found_cuda.json" <<'END' || failed=1
import json, sys
cpu, cuda = ([picture["detections"] for picture in json.load(open(path))] for path in sys.argv[1:])
def same(a, b):
    return a["class_id"] == b["class_id"] and max(abs(x - y) for x, y in zip([a["score"], *a["box"]], [b["score"], *b["box"]])) < 0.01
found = sum(map(len, cpu))
again = sum(any(same(one, other) for other in there) for here, there in zip(cpu, cuda) for one in here)
print(f"of {found} objects that the exported model finds on the CPU, it finds {again} on the GPU, too, and {sum(map(len, cuda))} in all")
sys.exit(found == 0 or again < 0.99 * found or sum(map(len, cuda)) > 1.01 * found)
END
  "$build/bin/detect" --device cuda --benchmark 200 --model "$folder/channels_last" --model "$folder/contiguous" "$folder/test.record" || failed=1
}

# train_shapes NAME FLAGS...: trains on pictures of shapes for 40 steps; what it says goes into NAME.log
train_shapes() {
  "$build/bin/train_detector" --pipeline_config configs/quickstart.config --data_dir "$folder" --model_dir "$folder/$1" --device cuda \
    --set eval_input_reader= --num_train_steps 40 --log_every_n 10 --set train_config.checkpoint.every_n_steps=10 "${@:2}" >"$folder/$1.log" 2>&1
}

# What `on_nan` does with weights that a learning rate has ruined, and that `deterministic` runs are the same.
policies() {
  local run code=0 rate='train_config.optimizer.momentum_optimizer.learning_rate={manual_step_learning_rate {initial_learning_rate: 0.01 schedule {step: 15 learning_rate: 1e30} schedule {step: 17 learning_rate: 0.01}}}'
  shapes 200 1 train
  train_shapes skipped --set train_config.on_nan.policy=SKIP_BATCH --set "$rate" --set train_config.gradient_clipping_by_norm= || code=$?
  tail -n 1 "$folder/skipped.log"
  [ $code = 4 ] && [ -e "$folder/skipped/nan_report/report.json" ] || { echo "SKIP_BATCH: exit code $code, or no report"; failed=1; }
  code=0
  train_shapes rolled_back --set 'train_config.on_nan={policy: ROLLBACK rollback_learning_rate_factor: 1e-32}' --set "$rate" \
    --set train_config.gradient_clipping_by_norm= || code=$?
  grep -o '"rollbacks": *[0-9]*' "$folder/rolled_back/run_info.json" || true
  [ $code = 0 ] && grep -q '"rollbacks": *[1-9]' "$folder/rolled_back/run_info.json" || { echo "ROLLBACK: exit code $code, or none"; failed=1; }
  for run in one other; do
    train_shapes $run --set train_config.deterministic=true --precision bf16 || { tail -n 3 "$folder/$run.log"; failed=1; }
  done
  cmp "$folder/one/ckpt-40.osprey" "$folder/other/ckpt-40.osprey" && echo "two deterministic runs: the same bits" || failed=1
}

# The rate of each operator.
rates() { "$build/bin/operators_bench" --device=cuda --benchmark_format=console --benchmark_min_time=0.01 || failed=1; }

# speed CONFIG BATCH FLAGS...: images per second of steps on made-up pictures
speed() {
  "$build/bin/train_detector" --pipeline_config "$1" --use_fake_data --device cuda --train_batch_size "$2" \
    --set train_config.fine_tune_checkpoint= --set train_input_reader.label_map_path= --benchmark_steps 30 "${@:3}" || failed=1
}

# Steps in each precision, recorded and not.
precisions() {
  local graph precision
  for graph in ON OFF; do
    for precision in fp32 tf32 bf16 fp16; do
      echo "cuda_graph $graph, $precision:"
      speed configs/ssd_mobilenet_v1_300x300_bccd.config 64 --precision "$precision" --set "train_config.accelerator.cuda_graph=$graph"
    done
  done
}

# How the loss falls in each precision, side by side, on the same pictures.
curves() {
  local precision
  shapes 2000 1 train
  for precision in fp32 tf32 bf16 fp16; do
    "$build/bin/train_detector" --pipeline_config configs/quickstart.config --data_dir "$folder" --model_dir "$folder/$precision" --device cuda \
      --precision $precision --set eval_input_reader= --num_train_steps 400 --log_every_n 50 >"$folder/$precision.log" 2>&1 || tail -n 3 "$folder/$precision.log" &
  done
  wait
  for precision in fp32 tf32 bf16 fp16; do
    echo "$precision, total loss of every 50th step: $(losses $precision | xargs -r printf '%.3f ')"
    losses $precision | awk 'NR == 1 { first = $1 } END { exit !(NR == 8 && $1 < first) }' || failed=1
  done
}

# A batch that does not fit is refused with one that does. 64 of these pictures take 32 GB, so 512 of them 250.
memory() {
  [ -n "$configs" ] || { echo "left out: no --configs"; return; }
  local code=0
  "$build/bin/train_detector" --pipeline_config "$configs/$resnet" --use_fake_data --device cuda --train_batch_size 512 --precision bf16 \
    --model_dir "$folder/large" --num_train_steps 2 --set train_config.fine_tune_checkpoint= --set train_input_reader.label_map_path= \
    --set eval_input_reader= >"$folder/memory.log" 2>&1 || code=$?
  tail -n 1 "$folder/memory.log"
  [ $code = 5 ] && grep -q 'images at a time fit' "$folder/memory.log" || { echo "exit code $code, or no advice"; failed=1; }
}

# What the GPU does in a step: kernels, gaps, waits.
traces() {
  [ -n "$configs" ] || { echo "left out: no --configs"; return; }
  python3 bench/trace.py --build "$build" --pipeline_config "$configs/$resnet" --batch_size 64 || failed=1
  python3 bench/trace.py --build "$build" --pipeline_config "$configs/$mobilenet" --batch_size 1024 || failed=1
}

# Parts of a step, one by one, beside what the GPU allows.
roofline() {
  [ -n "$configs" ] || { echo "left out: no --configs"; return; }
  python3 bench/roofline.py --build "$build" --pipeline_config "$configs/$resnet" --device cuda --precision bf16 --batch_size 64 || failed=1
}

# peer SCRIPT FLAGS...: the same network by PyTorch, eager and compiled
peer() {
  local mode
  for mode in "" --compile; do
    # shellcheck disable=SC2086  # one flag or none
    python3 "bench/peers/$1" "${@:2}" --device cuda --bf16 --channels_last --steps 10 $mode || failed=1
  done
}

# Whole steps in bfloat16 beside PyTorch's.
peers() {
  [ -n "$configs" ] || { echo "left out: no --configs"; return; }
  local with_torch=true
  python3 -c 'import torch, torchvision' 2>/dev/null || { with_torch=false; echo "python3 has no torch and torchvision: PyTorch is not timed"; }
  speed "$configs/$resnet" 64 --precision bf16
  ! $with_torch || peer torchvision_detectors.py retinanet_resnet50_fpn --size 640 --batch_size 64
  speed "$configs/$mobilenet" 1024 --precision bf16
  ! $with_torch || peer ssd_mobilenet_v1_pytorch.py --batch_size 1024
}

echo "# $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1), $(date -u +%F)"
for part in "${parts[@]}"; do
  printf '\n## %s\n\n' "$part"
  started=$SECONDS
  $part
  printf '\n(%s s)\n' $((SECONDS - started))
done
exit $failed
