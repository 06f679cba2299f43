"""One training step or one inference of a torchvision detector on constant pictures of one size; prints a JSON object.

    MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=67108864 \
        python bench/peers/torchvision_detectors.py retinanet_resnet50_fpn --batch_size 2 --size 640 [--infer] [--bf16] [--channels_last] [--compile] [--device cuda]
"""
import argparse

import torch
import torchvision

from timed_steps import add_flags, peak_mebibytes, report


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
    add_flags(flags)
    flags.add_argument("--infer", action="store_true")
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

    report(infer if args.infer else train, args, before, what="inference" if args.infer else "train step", size=args.size)


if __name__ == "__main__":
    main()
