"""Focal loss, forward and backward, by torchvision: beside bench/kernels/focal_loss_bench.cc.

usage: torchvision_focal_loss.py [BATCH] [ANCHORS] [CLASSES] [CALLS]; prints one JSON line, best of the calls in seconds.
"""
import json
import sys
import time

import torch
import torchvision

batch, anchors, classes, calls = (int(a) for a in (sys.argv[1:] + ["8", "51150", "90", "5"][len(sys.argv) - 1:]))
logits = (torch.randn(batch, anchors, classes) - 4).requires_grad_(True)
targets = torch.zeros_like(logits)
targets[:, : anchors // 200, 0] = 1
best = float("inf")
for _ in range(calls):
    logits.grad = None
    start = time.perf_counter()
    torchvision.ops.sigmoid_focal_loss(logits, targets, alpha=0.25, gamma=2, reduction="sum").backward()
    best = min(best, time.perf_counter() - start)
print(json.dumps({"shape": [batch, anchors, classes], "torchvision_s": round(best, 4)}))
