"""How far a training step is from what the machine allows, part by part: prints a roofline as a table in Markdown.

usage: roofline.py --pipeline_config F [--batch_size 2] [--precision fp32|bf16|fp16] [--device cpu|cuda] [--steps 8]
       [--build build/release]
Limits are measured, not looked up: the peak is the best rate of any convolution of the network, taken by itself
(convolution_bench); the memory's rate is that of a copy of 256 MiB, read and written (step_bench). A part can't take less than its
convolutions at the peak, nor less than its traffic at the rate of a copy, where each operator reads what it is given and writes
what it makes once: the larger of both is its limit. What stays in a cache from one operator to the next may fall below that, and so may
convolutions by Winograd's tiles, which make fewer products than they stand for.
"""
import argparse
import pathlib

from programs import run

PARTS = ("preprocess", "forward", "targets_and_losses", "backward", "regularization", "update")


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--pipeline_config", required=True)
    flags.add_argument("--batch_size", type=int, default=2)
    flags.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    flags.add_argument("--device", default="cpu")
    flags.add_argument("--steps", type=int, default=8)
    flags.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    flags = flags.parse_args()
    same = ("--pipeline_config", flags.pipeline_config, "--batch_size", flags.batch_size, "--precision", flags.precision,
            "--device", flags.device)
    peak = run([flags.build / "bin/convolution_bench", *same])["peak"]["gflops"]
    step = run([flags.build / "bin/step_bench", *same, "--steps", flags.steps])
    copy = step["copy_gib_per_second"]
    print(f"{step['config']}, batch {flags.batch_size}, {flags.precision}, {flags.device}: {step['images_per_second']:.4g} images/s; "
          f"convolutions at {peak:.4g} GFLOP/s at most, copies at {copy:.4g} GiB/s\n")
    print("| part | ms | of the step | GFLOP | GiB | limit, ms | by | of the limit |\n|---|---|---|---|---|---|---|---|")
    whole, limits = step["median_seconds"]["total"], 0
    for part in PARTS:
        seconds, work = step["median_seconds"][part], step["work"][part]
        limit, by = max((work["gflop"] / peak, "arithmetic"), (work["gib"] / copy, "memory"))
        limits += limit
        print(f"| {part} | {1e3 * seconds:.2f} | {100 * seconds / whole:.1f} % | {work['gflop']:.3g} | {work['gib']:.3g} "
              f"| {1e3 * limit:.2f} | {by} | {limit / seconds:.2f} |")
    print(f"| all | {1e3 * whole:.2f} | | {step['work']['total']['gflop']:.3g} | {step['work']['total']['gib']:.3g} "
          f"| {1e3 * limits:.2f} | | {limits / whole:.2f} |")


main()
