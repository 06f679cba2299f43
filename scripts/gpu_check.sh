#!/usr/bin/env bash
# What only a GPU can show: operators and steps there beside the CPU, the kernels under compute-sanitizer, the rates of all operators and
# of whole steps. Prints a report that is fit for bench/results.
# usage: scripts/gpu_check.sh [BUILD_DIR]     (default: build/release, built with nvcc and -DOSPREY_BUILD_BENCH=ON)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
command -v nvidia-smi >/dev/null || { echo "gpu_check.sh: no GPU here (nvidia-smi was not found)" >&2; exit 1; }
[ -x "$build/bin/operators_bench" ] || { echo "gpu_check.sh: $build/bin/operators_bench is missing: configure with -DOSPREY_BUILD_BENCH=ON" >&2; exit 1; }
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

echo "# $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1), $(date -u +%F)"
failed=0
echo; echo "## Operators beside the CPU"; echo
"$build/tests/kernels_test" --gtest_filter='Operators.*' || failed=1
if [ -x "$sanitizer" ]; then
  for tool in memcheck racecheck; do
    echo; echo "## compute-sanitizer --tool $tool"; echo
    "$sanitizer" --tool "$tool" --error-exitcode 9 "$build/tests/kernels_test" --gtest_filter='Operators.GiveOnAGpu*' 2>&1 | tail -n 5 || failed=1
  done
else
  echo "compute-sanitizer was not found: left out"
fi
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
exit $failed
