"""How long trainings took to an accuracy, evaluations and checkpoints included, from what they have logged.

usage: time_to_accuracy.py MODEL_DIR [MODEL_DIR ...] [--metric M] [--target X] [--every]
Prints a table in Markdown with a row for each training: the first evaluation that reached the target, or without one the best.
With --every there is a row for every evaluation instead. The exit code is 1 where a training has not reached the target.
A training to a target is `train_detector ... --set 'train_config.early_stopping={metric: "M" target: X}'`, which ends it there.
"""
import argparse
import json
import pathlib
import sys


def evaluations(folder):
    """The lines of a training, one of each step: of an evaluation that was made once more, the later."""
    file = folder / "evaluations.jsonl"
    if not folder.is_dir():
        sys.exit(f"{folder}: there is no such folder")
    lines = {}
    for text in file.read_text().splitlines() if file.exists() else []:
        try:
            line = json.loads(text)
        except json.JSONDecodeError:  # of a training that was killed, or is about to write it
            continue
        lines[line["step"]] = line
    return list(lines.values())


def metric_of(lines, wanted):
    """The tag whose values are asked for."""
    known = sorted({name for line in lines for name in line["metrics"]})
    if wanted is None:
        return "DetectionBoxes_Precision/mAP" if "DetectionBoxes_Precision/mAP" in known else known[0]
    if wanted not in known:
        sys.exit(f"--metric {wanted}: there are {', '.join(known)}")
    return wanted


def row(folder, line, value, note):
    epoch = f"{line['epoch']:.2f}" if "epoch" in line else "-"
    print(f"| {folder} | {line['step']} | {epoch} | {line['wall_seconds'] / 3600:.4f} | {value:.4f} |{note}")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folders", metavar="MODEL_DIR", type=pathlib.Path, nargs="+")
    flags.add_argument("--metric", help="default: mAP, or the first there is; where its name begins with Loss/, less is better")
    flags.add_argument("--target", type=float)
    flags.add_argument("--every", action="store_true")
    flags = flags.parse_args()
    of_folders = {folder: evaluations(folder) for folder in flags.folders}
    for folder, lines in of_folders.items():
        if not lines:
            print(f"{folder}: no evaluation was logged; a training makes them where it has an eval_input_reader", file=sys.stderr)
            sys.exit(0 if flags.target is None else 1)
    metric = metric_of([line for lines in of_folders.values() for line in lines], flags.metric)
    sign = -1 if metric.startswith("Loss/") else 1
    missed = []
    print(f"| training | step | epoch | hours | {metric} |\n|---|---|---|---|---|")
    for folder, lines in of_folders.items():
        found = [(line, line["metrics"][metric]) for line in lines if line["metrics"].get(metric) is not None]
        enough = [one for one in found if flags.target is not None and sign * one[1] >= sign * flags.target]
        note = ""
        if flags.target is not None and not enough:
            missed.append(str(folder))
            note = " the best, short of the target |"
        best = [max(found, key=lambda one: sign * one[1])] if found else []
        for line, value in found if flags.every else enough[:1] or best:
            row(folder, line, value, "" if flags.every else note)
    if missed:
        sys.exit(f"time_to_accuracy.py: {flags.target:g} was not reached by {', '.join(missed)}")


main()
