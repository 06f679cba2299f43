"""One training step or one inference of a torchvision detector on constant pictures of one size; prints a JSON object.

    MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=67108864 \
        python bench/peers/torchvision_detectors.py retinanet_resnet50_fpn --batch_size 2 --size 640 [--infer] [--bf16] [--channels_last] [--compile] [--device cuda]
"""
import argparse
import json
import resource
import statistics
import time

import torch
import torchvision


def peak_mebibytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_reserved() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def made_up_targets(count, size, boxes=7):
    corner = torch.rand(count, boxes, 2) * 0.7
    extent = torch.rand(count, boxes, 2) * 0.25 + 0.05
    corners = torch.cat([corner, corner + extent], 2) * size
    return [{"boxes": of_picture, "labels": torch.randint(1, 91, (boxes,))} for of_picture in corners]


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("model", help="a function of torchvision.models.detection")
    flags.add_argument("--batch_size", type=int, default=1)
    flags.add_argument("--size", type=int, default=640)
    flags.add_argument("--steps", type=int, default=8)
    flags.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    flags.add_argument("--infer", action="store_true")
    flags.add_argument("--bf16", action="store_true")
    flags.add_argument("--channels_last", action="store_true")
    flags.add_argument("--compile", action="store_true", help="torch.compile the backbone and the head")
    args = flags.parse_args()

    before = peak_mebibytes(args.device)
    torch.manual_seed(1)
    options = {"weights": None, "weights_backbone": None, "num_classes": 91}
    if not args.model.startswith("ssd"):
        options.update(min_size=args.size, max_size=args.size)
    model = getattr(torchvision.models.detection, args.model)(**options)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    model.to(args.device).train(not args.infer)
    if args.compile:
        for part in ("backbone", "head"):
            getattr(model, part).compile()
    pictures = [torch.rand(3, args.size, args.size, device=args.device) for _ in range(args.batch_size)]
    targets = [{name: value.to(args.device) for name, value in of_picture.items()}
               for of_picture in made_up_targets(args.batch_size, args.size)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def infer():
        with torch.inference_mode(), torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            model(pictures)

    def train():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            loss = sum(model(pictures, targets).values())
        loss.backward()
        optimizer.step()

    seconds = []
    for step in range(-2, args.steps):
        start = time.perf_counter()
        (infer if args.infer else train)()
        if args.device == "cuda":
            torch.cuda.synchronize()
        if step >= 0:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(json.dumps({
        "what": "inference" if args.infer else "train step",
        "model": args.model,
        "batch_size": args.batch_size,
        "size": args.size,
        "device": args.device,
        "precision": "bf16" if args.bf16 else "fp32",
        "channels_last": args.channels_last,
        "compiled": args.compile,
        "threads": torch.get_num_threads(),
        "images_per_second": args.batch_size / median,
        "median_seconds": median,
        "peak_memory_mib": peak_mebibytes(args.device) - before,
    }))


if __name__ == "__main__":
    main()
