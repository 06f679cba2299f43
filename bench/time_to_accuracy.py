"""How long trainings took to an accuracy, evaluations and checkpoints included, from what they have logged.

usage: time_to_accuracy.py MODEL_DIR [MODEL_DIR ...] [--metric DetectionBoxes_Precision/mAP] [--target X] [--every]
Prints a table in Markdown with a row for each training: the first evaluation that reached the target, or without one the best.
With --every there is a row for every evaluation instead. The exit code is 1 where a training has not reached the target.
A training to a target is `train_detector ... --set 'train_config.early_stopping={metric: "M" target: X}'`, which ends it there.
"""
import argparse
import json
import pathlib
import sys


def evaluations(folder, metric):
    """Those of a training that gave a value: [(line, value)] in the order of their steps."""
    file = folder / "evaluations.jsonl"
    if not file.exists():
        sys.exit(f"{file}: there is none; a training writes it where it has an eval_input_reader")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    known = sorted({name for line in lines for name in line["metrics"]})
    if lines and metric not in known:
        sys.exit(f"--metric {metric}: there are {', '.join(known)}")
    return [(line, line["metrics"][metric]) for line in lines if line["metrics"].get(metric) is not None]


def row(folder, line, value):
    epoch = f"{line['epoch']:.2f}" if "epoch" in line else "-"
    print(f"| {folder} | {line['step']} | {epoch} | {line['wall_seconds'] / 3600:.4f} | {value:.4f} |")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folders", metavar="MODEL_DIR", type=pathlib.Path, nargs="+")
    flags.add_argument("--metric", default="DetectionBoxes_Precision/mAP", help="one whose name begins with Loss/ is better where it is less")
    flags.add_argument("--target", type=float)
    flags.add_argument("--every", action="store_true")
    flags = flags.parse_args()
    sign = -1 if flags.metric.startswith("Loss/") else 1
    reached = True
    print(f"| training | step | epoch | hours | {flags.metric} |\n|---|---|---|---|---|")
    for folder in flags.folders:
        found = evaluations(folder, flags.metric)
        if not found:
            sys.exit(f"{folder}: no evaluation gave a value of {flags.metric}")
        enough = [one for one in found if flags.target is not None and sign * one[1] >= sign * flags.target]
        if flags.target is not None and not enough:
            reached = False
        for line, value in found if flags.every else enough[:1] or [max(found, key=lambda one: sign * one[1])]:
            row(folder, line, value)
    if not reached:
        sys.exit(f"time_to_accuracy.py: not every training has reached {flags.target}")


main()
