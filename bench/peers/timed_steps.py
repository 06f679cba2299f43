"""How the detectors of this folder time a step and say so."""
import json
import resource
import statistics
import time

import torch


def peak_mebibytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_reserved() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def add_flags(flags):
    flags.add_argument("--steps", type=int, default=8)
    flags.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    flags.add_argument("--bf16", action="store_true")
    flags.add_argument("--channels_last", action="store_true")


def report(step, args, before, **more):
    """Makes args.steps steps behind two that do not count and prints a JSON object of their median.

    before  peak_mebibytes before the model was made
    more    what else the object says
    """
    seconds = []
    for number in range(-2, args.steps):
        start = time.perf_counter()
        step()
        if args.device == "cuda":
            torch.cuda.synchronize()
        if number >= 0:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(json.dumps({
        **more,
        "model": args.model,
        "batch_size": args.batch_size,
        "device": args.device,
        "precision": "bf16" if args.bf16 else "fp32",
        "channels_last": args.channels_last,
        "compiled": args.compile,
        "threads": torch.get_num_threads(),
        "images_per_second": args.batch_size / median,
        "median_seconds": median,
        "peak_memory_mib": peak_mebibytes(args.device) - before,
    }))
