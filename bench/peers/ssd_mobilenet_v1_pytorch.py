"""SSD MobileNet v1 written in plain PyTorch, to time a training step beside bench/models/step_bench.cc.

The same network (300x300, TensorFlow's SAME padding, 90 classes, 1917 anchors), the same losses (sigmoid focal, smooth L1,
L2 penalty), the same kind of batch (7 boxes a picture in 100 rows), SGD with momentum; eager, as one writes it, or with network
and losses compiled. Run with a tuned allocator for a fair comparison:

    MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=67108864 python ssd_mobilenet_v1_pytorch.py --channels_last
"""
import argparse
import json
import math
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Conv(nn.Module):
    """Convolution with SAME padding, batch norm, ReLU6."""

    def __init__(self, inputs, outputs, kernel=1, stride=1, groups=1):
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, bias=False, groups=groups)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)

    def forward(self, x):
        if self.kernel > 1:
            pads = []
            for side in (x.shape[3], x.shape[2]):
                total = max((math.ceil(side / self.stride) - 1) * self.stride + self.kernel - side, 0)
                pads += [total // 2, total - total // 2]
            x = F.pad(x, pads)
        return F.relu6(self.norm(self.conv(x)))


class Ssd(nn.Module):
    STAGES = [(1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512)] + [(1, 512)] * 5 + [(2, 1024), (1, 1024)]
    EXTRA = [512, 256, 256, 128]
    ANCHORS = [3, 6, 6, 6, 6, 6]

    def __init__(self, slots=91):
        super().__init__()
        self.slots = slots
        self.stem = Conv(3, 32, 3, 2)
        depth, blocks = 32, []
        for stride, out in self.STAGES:
            blocks.append(nn.Sequential(Conv(depth, depth, 3, stride, groups=depth), Conv(depth, out)))
            depth = out
        self.blocks = nn.ModuleList(blocks)
        depths, extra = [512, 1024], []
        for out in self.EXTRA:
            extra.append(nn.Sequential(Conv(depth, out // 2), Conv(out // 2, out, 3, 2)))
            depth = out
            depths.append(out)
        self.extra = nn.ModuleList(extra)
        self.boxes = nn.ModuleList(nn.Conv2d(d, 4 * n, 1) for d, n in zip(depths, self.ANCHORS))
        self.classes = nn.ModuleList(nn.Conv2d(d, slots * n, 1) for d, n in zip(depths, self.ANCHORS))

    def forward(self, x):
        x, maps = self.stem(x), []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == 10:
                maps.append(x)
        maps.append(x)
        for block in self.extra:
            x = block(x)
            maps.append(x)
        rows = lambda y, k: y.permute(0, 2, 3, 1).reshape(y.shape[0], -1, k)
        return (torch.cat([rows(h(m), 4) for h, m in zip(self.boxes, maps)], 1),
                torch.cat([rows(h(m), self.slots) for h, m in zip(self.classes, maps)], 1))


def make_anchors():
    """The SSD anchors of six maps, [1917, 4] corners."""
    scales = [0.2 + 0.75 * i / 5 for i in range(6)] + [1.0]
    result = []
    for level, side in enumerate([19, 10, 5, 3, 2, 1]):
        shapes = [(0.1, 1), (scales[0], 2), (scales[0], 0.5)] if level == 0 else \
            [(scales[level], r) for r in (1, 2, 0.5, 3, 0.3333)] + [(math.sqrt(scales[level] * scales[level + 1]), 1)]
        for y in range(side):
            for x in range(side):
                for scale, ratio in shapes:
                    h, w = scale / math.sqrt(ratio), scale * math.sqrt(ratio)
                    cy, cx = (y + 0.5) / side, (x + 0.5) / side
                    result.append([cy - h / 2, cx - w / 2, cy + h / 2, cx + w / 2])
    return torch.tensor(result)


def assign(anchors, boxes, classes, slots):
    """Targets of one picture: arg-max matching at 0.5 with every box's best anchor forced."""
    top = torch.maximum(boxes[:, None, :2], anchors[None, :, :2])
    low = torch.minimum(boxes[:, None, 2:], anchors[None, :, 2:])
    inter = (low - top).clamp(min=0).prod(2)
    area = lambda b: (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    iou = inter / (area(boxes)[:, None] + area(anchors)[None] - inter)
    best, match = iou.max(0)
    match[best < 0.5] = -1
    match[iou.max(1).indices] = torch.arange(len(boxes), device=boxes.device)
    positive = match >= 0
    target = torch.zeros(len(anchors), slots, device=boxes.device)
    target[positive, classes[match[positive]] + 1] = 1
    b, a = boxes[match.clamp(min=0)], anchors
    size, base = b[:, 2:] - b[:, :2], a[:, 2:] - a[:, :2]
    codes = torch.cat([10 * ((b[:, 2:] + b[:, :2]) - (a[:, 2:] + a[:, :2])) / 2 / base, 5 * torch.log(size / base)], 1)
    return target, codes * positive[:, None], positive.float()


def focal(logits, target, alpha=0.75, gamma=2.0):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    return (alpha * target + (1 - alpha) * (1 - target)) * (1 - p_t) ** gamma * ce


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--channels_last", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile the network and the losses")
    args = parser.parse_args()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.manual_seed(0)
    order = torch.channels_last if args.channels_last else torch.contiguous_format
    model = Ssd().to(args.device, memory_format=order).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    weights = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d)]
    anchors, size = make_anchors().to(args.device), args.batch_size
    images = torch.randint(0, 256, (size, 3, 300, 300), dtype=torch.uint8, device=args.device)
    corner = torch.rand(size, 7, 2) * 0.7
    boxes = torch.cat([corner, corner + torch.rand(size, 7, 2) * 0.25 + 0.05], 2)
    classes = torch.randint(0, 90, (size, 7))
    boxes, classes = boxes.to(args.device), classes.to(args.device)

    def now():
        if args.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    network, class_loss = (torch.compile(model), torch.compile(focal)) if args.compile else (model, focal)
    times, parts = [], {"forward": [], "loss": [], "backward": [], "update": []}
    for step in range(3 + args.steps):
        marks = [now()]
        x = (images.float() * (2 / 255) - 1).to(memory_format=order)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            codes, logits = network(x)
        marks.append(now())
        with torch.no_grad():
            target, wanted, positive = map(torch.stack, zip(*(assign(anchors, b, c, 91) for b, c in zip(boxes, classes))))
        box_loss = (F.smooth_l1_loss(codes.float(), wanted, reduction="none").sum(2) * positive).sum()
        loss = (box_loss / 4 + class_loss(logits.float(), target).sum()) / positive.sum().clamp(min=1)
        loss = loss + 2e-5 * sum(w.square().sum() for w in weights)
        marks.append(now())
        loss.backward()
        marks.append(now())
        optimizer.step()
        optimizer.zero_grad()
        marks.append(now())
        if step >= 3:
            times.append(marks[-1] - marks[0])
            for i, name in enumerate(parts):
                parts[name].append(marks[i + 1] - marks[i])
    median = statistics.median(times)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024
    if args.device == "cuda":
        peak = torch.cuda.max_memory_reserved() / 2**20
    print(json.dumps({"what": "train step, PyTorch", "compiled": args.compile, "batch_size": size, "precision": "bf16" if args.bf16 else "fp32",
                      "channels_last": args.channels_last, "device": args.device, "threads": torch.get_num_threads(),
                      "images_per_second": size / median, "peak_memory_mib": peak,
                      "median_seconds": {"total": median, **{k: statistics.median(v) for k, v in parts.items()}}}))


if __name__ == "__main__":
    main()
