"""How much a training's result depends on its seed: trains one config with several seeds and prints a table in Markdown.

usage: seeds.py --pipeline_config F --output DIR [--seeds 1 2 3 4 5] [--metric DetectionBoxes_Precision/mAP] [--at_least X]
       [--build build/release] [-- FLAGS]
FLAGS go to every train_detector, e.g. -- --data_dir data --set train_config.num_steps=1000. Each seed trains in DIR/seed-N, one after the
other; one that is done already, or was interrupted, goes on where it was. The result is that of the evaluation at a training's end. With
--at_least the exit code is 1 where the mean is less.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time


def train(flags, seed):
    """Trains with a seed. returns  the value of the metric at the end, seconds"""
    folder = flags.output / f"seed-{seed}"
    command = [flags.build / "bin/train_detector", "--pipeline_config", flags.pipeline_config, "--model_dir", folder,
               "--set", f"train_config.seed={seed}", *flags.flags]
    started = time.monotonic()
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    evaluations = {int(re.search(r"(\d+)\.json$", file.name)[1]): file for file in (folder / "eval").glob("metrics_*.json")}
    if not evaluations:
        sys.exit(f"{folder}/eval: the training was not evaluated; it needs an eval_input_reader")
    metrics = json.loads(evaluations[max(evaluations)].read_text())["metrics"]
    if flags.metric not in metrics:
        sys.exit(f"--metric {flags.metric}: there are {', '.join(sorted(metrics))}")
    return metrics[flags.metric], time.monotonic() - started


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--pipeline_config", required=True)
    flags.add_argument("--output", type=pathlib.Path, required=True)
    flags.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    flags.add_argument("--metric", default="DetectionBoxes_Precision/mAP")
    flags.add_argument("--at_least", type=float)
    flags.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    flags.add_argument("flags", nargs="*", help="of train_detector, after --")
    flags = flags.parse_args()
    print(f"| seed | {flags.metric} | time |\n|---|---|---|")
    values = []
    for seed in flags.seeds:
        value, seconds = train(flags, seed)
        values.append(value)
        print(f"| {seed} | {value:.4f} | {seconds:.0f} s |", flush=True)
    mean = statistics.mean(values)
    spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else "-"
    print(f"\nmean {mean:.4f}, standard deviation {spread}, from {min(values):.4f} to {max(values):.4f}")
    if flags.at_least is not None and mean < flags.at_least:
        sys.exit(f"seeds.py: the mean {mean:.4f} is less than {flags.at_least}")


main()
