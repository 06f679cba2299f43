"""Random data sets, evaluated by eval_detector and by pycocotools: the twelve numbers agree within 1e-9, as do the
precision-recall curves at IoU 0.5 and what is right, wrong and missed at the threshold that is best for F1.

usage: pycocotools_test.py BUILD_DIR
"""
import contextlib
import fractions
import io
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

PROGRAM = pathlib.Path(sys.argv[1]).resolve() / "bin" / "eval_detector"


def data_set(seed, images=40, classes=5, objects=6, detections=30, crowds=0.1, grid=None, score_levels=None, string_ids=False):
    """Objects of all sizes, crowds among them; detections near objects (also of other classes) or anywhere.

    grid: whole numbers on a coarse grid, which gives equal overlaps and areas at the borders of the ranges.
    score_levels: so many different scores, which gives ties.
    """
    rng = np.random.default_rng(seed)
    gt, dt = [], []
    image_ids = [int(v) for v in rng.permutation(images * 3)[:images]]
    if string_ids:
        image_ids = ["image_%d" % i for i in image_ids]
    categories = [int(v) for v in np.sort(rng.permutation(90)[:classes]) + 1]

    def box():
        size = rng.choice([rng.uniform(4, 30), rng.uniform(30, 100), rng.uniform(90, 300)])
        b = [rng.uniform(0, 400), rng.uniform(0, 400), size * rng.uniform(0.5, 1.5), size * rng.uniform(0.5, 1.5)]
        return [float(round(v / grid) * grid) for v in b] if grid else [float(v) for v in b]

    for image in image_ids:
        truth = []
        for _ in range(rng.integers(0, objects + 1)):
            b = box()
            truth.append(dict(id=len(gt) + len(truth) + 1, image_id=image, category_id=int(rng.choice(categories[:-1])), bbox=b,
                              area=b[2] * b[3] * float(rng.uniform(0.6, 1)) if rng.random() < 0.5 else b[2] * b[3],
                              iscrowd=int(rng.random() < crowds)))
        gt += truth
        for _ in range(rng.integers(0, detections + 1)):
            if truth and rng.random() < 0.7:
                source = truth[rng.integers(len(truth))]
                shift = rng.normal(0, 0.12, 4) * source["bbox"][2]
                b = [float(v) for v in np.asarray(source["bbox"]) + (np.round(shift / grid) * grid if grid else shift)]
                b[2], b[3] = max(b[2], 1.0), max(b[3], 1.0)
                category = source["category_id"] if rng.random() < 0.8 else int(rng.choice(categories))
            else:
                b, category = box(), int(rng.choice(categories))
            score = float(rng.random())
            dt.append(dict(image_id=image, category_id=category, bbox=b,
                           score=round(score * score_levels) / score_levels if score_levels else score))
    return dict(images=[dict(id=i) for i in image_ids], annotations=gt, categories=[dict(id=c, name="c%d" % c) for c in categories]), dt


def expected(truth, found):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        coco = COCO()
        coco.dataset = json.loads(json.dumps(truth))
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(json.loads(json.dumps(found))), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        text.truncate(0)
        text.seek(0)
        evaluation.summarize()
    return evaluation, text.getvalue()


def check(name, truth, found, folder):
    gt, dt, out = folder / "gt.json", folder / "dt.json", folder / "out.json"
    gt.write_text(json.dumps(truth))
    dt.write_text(json.dumps(found))
    done = subprocess.run([PROGRAM, "--ground_truth", gt, "--detections", dt, "--json", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = json.loads(out.read_text())
    theirs, summary = expected(truth, found)
    assert done.stdout.startswith(summary), "%s: the summary differs\n%s\n%s" % (name, done.stdout, summary)
    assert len(ours["metrics"]) == 12
    worst = 0.0
    for (key, value), want in zip(ours["metrics"].items(), theirs.stats):
        value = -1.0 if value is None else value
        worst = max(worst, abs(value - want))
        assert abs(value - want) <= 1e-9, "%s: %s is %.17g, pycocotools has %.17g" % (name, key, value, want)
    for k, row in enumerate(ours["per_class"]):
        precision = theirs.eval["precision"][:, :, k, 0, 2]
        want = None if (precision == -1).all() else precision.mean()
        assert (row["AP"] is None) == (want is None) and (want is None or abs(row["AP"] - want) <= 1e-9), (name, row, want)
    check_curves(name, ours["at_iou_50"]["precision_recall"], theirs)
    check_operating_point(name, ours["at_iou_50"]["operating_point"], theirs)
    print("%-28s %5d objects %6d detections  mAP %.6f  largest difference %.1e" %
          (name, len(truth["annotations"]), len(found), theirs.stats[0], worst))


def check_curves(name, ours, theirs):
    assert ours["recall"] == list(theirs.params.recThrs), name
    precision, score = theirs.eval["precision"][0, :, :, 0, 2], theirs.eval["scores"][0, :, :, 0, 2]
    for k, row in enumerate(ours["per_class"]):
        if (precision[:, k] == -1).all():
            assert row["precision"] is None and row["score"] is None, (name, row)
            continue
        assert row["precision"] == list(precision[:, k]), (name, row["name"])
        # At recall 0 pycocotools has the score of the first detection, right or not.
        assert [s or 0 for s in row["score"][1:]] == list(score[1:, k]), (name, row["name"])
    there = precision[:, (precision != -1).any(axis=0)]
    assert (ours["mean_precision"] is None) == (there.size == 0), name
    assert not there.size or np.abs(there.mean(axis=1) - ours["mean_precision"]).max() <= 1e-12, name


def check_operating_point(name, ours, theirs):
    counts = []  # per class: scores of the right, scores of the wrong, number of objects
    images = [e for e in theirs.evalImgs if e is not None and e["aRng"] == theirs.params.areaRng[0]]
    for category in theirs.params.catIds:
        own = [e for e in images if e["category_id"] == category]
        scores = np.concatenate([e["dtScores"] for e in own] + [[]])
        matched = np.concatenate([e["dtMatches"][0] for e in own] + [[]]).astype(bool)
        counting = ~np.concatenate([e["dtIgnore"][0] for e in own] + [[]]).astype(bool)
        objects = sum(int((np.asarray(e["gtIgnore"]) == 0).sum()) for e in own)
        counts.append((scores[matched & counting], scores[~matched & counting], objects))

    def f1(threshold):
        right = sum(int((r >= threshold).sum()) for r, _, _ in counts)
        wrong = sum(int((w >= threshold).sum()) for _, w, _ in counts)
        return fractions.Fraction(2 * right, max(right + wrong + sum(n for _, _, n in counts), 1))

    candidates = np.unique(np.concatenate([s for r, w, _ in counts for s in (r, w)] + [[]]))
    best = max(candidates, key=lambda score: (f1(score), -score), default=None)
    assert ours["score_threshold"] == best, (name, ours["score_threshold"], best)
    best = np.inf if best is None else best
    for row, (right, wrong, objects) in zip(ours["per_class"], counts):
        tp, fp = int((right >= best).sum()), int((wrong >= best).sum())
        assert (row["true_positives"], row["false_positives"], row["false_negatives"]) == (tp, fp, objects - tp), (name, row)
        assert row["precision"] == (tp / (tp + fp) if tp + fp else None), (name, row)
        assert row["recall"] == (tp / objects if objects else None), (name, row)
    matrix = np.asarray(ours["confusion_matrix"]["counts"])
    objects = np.asarray([n for _, _, n in counts])
    assert (matrix[:-1].sum(axis=1) == objects).all(), (name, "an object is in one cell")
    for key in ("true_positives", "false_positives", "false_negatives"):
        assert ours["all"][key] == sum(row[key] for row in ours["per_class"]), (name, key)


def main():
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        for seed in range(6):
            check("random %d" % seed, *data_set(seed), folder)
        check("equal scores", *data_set(10, score_levels=4), folder)
        check("equal scores and overlaps", *data_set(11, grid=8.0, score_levels=3, detections=60), folder)
        check("all scores equal", *data_set(12, score_levels=1, detections=50), folder)
        check("half of them crowds", *data_set(13, crowds=0.5), folder)
        check("crowds only", *data_set(14, crowds=1.0), folder)
        check("no crowds", *data_set(15, crowds=0.0), folder)
        check("more than 100 detections", *data_set(16, images=6, classes=2, detections=400), folder)
        check("text ids", *data_set(17, string_ids=True), folder)
        check("one image", *data_set(18, images=1, detections=80), folder)
        truth, found = data_set(19)
        check("no objects", dict(truth, annotations=[]), found, folder)
        truth, found = data_set(20)
        for i, annotation in enumerate(truth["annotations"]):
            annotation["id"] = i  # pycocotools takes a match with id 0 for none
        check("ids from 0", truth, found, folder)


main()
