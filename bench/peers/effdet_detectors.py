"""One training step of an EfficientDet of the package effdet, which NVIDIA's EfficientDet for PyTorch is made from, on constant
pictures; prints a JSON object. tf_efficientdet_d0 has the layers of the OD API's ssd_efficientdet_d0_512x512_coco17_tpu-8.config.

    pip install effdet==0.4.1
    LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4 \
        python bench/peers/effdet_detectors.py tf_efficientdet_d0 --batch_size 4 [--bf16] [--channels_last] [--compile] [--device cuda]
"""
import argparse

import effdet
import torch

from timed_steps import add_flags, peak_mebibytes, report


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("model", help="a name of effdet.config")
    flags.add_argument("--batch_size", type=int, default=4)
    add_flags(flags)
    flags.add_argument("--compile", action="store_true", help="torch.compile the network; anchors and losses stay eager")
    args = flags.parse_args()

    before = peak_mebibytes(args.device)
    torch.manual_seed(1)
    # Targets are assigned in the step, as Osprey's are.
    bench = effdet.create_model(args.model, bench_task="train", num_classes=90, pretrained=False, pretrained_backbone=False,
                                bench_labeler=True)
    if args.channels_last:
        bench = bench.to(memory_format=torch.channels_last)
    bench.to(args.device).train()
    parameters = list(bench.parameters())
    size, boxes = bench.config.image_size[0], 7
    if args.compile:
        bench.model.compile()
    pictures = torch.rand(args.batch_size, 3, size, size, device=args.device)
    if args.channels_last:
        pictures = pictures.to(memory_format=torch.channels_last)
    corner, extent = torch.rand(args.batch_size, boxes, 2) * 0.7, torch.rand(args.batch_size, boxes, 2) * 0.25 + 0.05
    targets = {
        "bbox": torch.cat([corner, corner + extent], 2) * size,
        "cls": torch.randint(1, 91, (args.batch_size, boxes)).float(),
        "img_scale": torch.ones(args.batch_size),
        "img_size": torch.full((args.batch_size, 2), float(size)),
    }
    targets = {name: value.to(args.device) for name, value in targets.items()}
    optimizer = torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, weight_decay=4e-5)

    def train():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            loss = bench(pictures, targets)["loss"]
        loss.backward()
        optimizer.step()

    report(train, args, before, what="train step", size=size, parameters=sum(parameter.numel() for parameter in parameters))


if __name__ == "__main__":
    main()
