"""Random data sets, evaluated by eval_detector and by pycocotools: the twelve numbers agree within 1e-9.

usage: pycocotools_test.py BUILD_DIR
"""
import contextlib
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
    print("%-28s %5d objects %6d detections  mAP %.6f  largest difference %.1e" %
          (name, len(truth["annotations"]), len(found), theirs.stats[0], worst))


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
