"""PyTorch's SGD with momentum over the parameters of torchvision's RetinaNet: beside bench/kernels/optimizer_bench.cc.

usage: torch_sgd.py [CALLS]; prints one JSON line, best of the calls in seconds.
"""
import json
import sys
import time

import torch
import torchvision

calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20
model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None)
values = list(model.parameters())
for value in values:
    value.requires_grad_(True)
    value.grad = torch.randn_like(value)
result = {"parameters": sum(v.numel() for v in values)}
for name, options in {"foreach": {"foreach": True}, "fused": {"fused": True}}.items():
    optimizer = torch.optim.SGD(values, lr=1e-6, momentum=0.9, **options)
    optimizer.step()
    best = float("inf")
    for _ in range(calls):
        start = time.perf_counter()
        optimizer.step()
        best = min(best, time.perf_counter() - start)
    result[f"{name}_s"] = round(best, 5)
print(json.dumps(result))
