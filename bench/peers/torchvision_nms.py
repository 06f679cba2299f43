"""Post-processing of one picture by torchvision: decoding of all boxes, scores of all logits, suppression by class; beside
bench/kernels/nms_bench.cc.

usage: torchvision_nms.py [ANCHORS] [CLASSES] [SCORE_THRESHOLD] [CALLS]; prints one JSON line, best of the calls in seconds: with
every candidate above the threshold, and with the best 1000 of them only.
"""
import json
import sys
import time

import torch
import torchvision
from torchvision.models.detection._utils import BoxCoder

anchors, classes = (int(a) for a in (sys.argv[1:3] + ["51150", "90"][len(sys.argv[1:3]):]))
threshold = float(sys.argv[3]) if len(sys.argv) > 3 else 0.98
calls = int(sys.argv[4]) if len(sys.argv) > 4 else 3
torch.manual_seed(0)
center, half = torch.rand(anchors, 2), torch.rand(anchors, 2) * 0.15
priors, codes = torch.cat([center - half, center + half], -1), torch.randn(anchors, 4)
logits = torch.rand(anchors, classes).logit()
coder = BoxCoder(weights=(10.0, 10.0, 5.0, 5.0))


def kept(scores, chosen):
    boxes, values = coder.decode_single(codes, priors), scores[chosen]
    return torchvision.ops.batched_nms(boxes[chosen // classes], values, chosen % classes, 0.6)[:100]


def all_candidates():
    scores = logits.sigmoid().flatten()
    kept(scores, (scores > threshold).nonzero()[:, 0])


def best_thousand():
    scores = logits.sigmoid().flatten()
    kept(scores, scores.topk(1000).indices)


def best_of(call):
    best = float("inf")
    for _ in range(calls):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return round(best, 5)


print(json.dumps({"shape": [anchors, classes], "score_threshold": threshold, "torchvision_s": best_of(all_candidates),
                  "torchvision_best_1000_s": best_of(best_thousand)}))
