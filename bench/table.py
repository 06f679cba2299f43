"""Osprey's kernels and training steps beside PyTorch and torchvision, in one run: prints a table of ratios in Markdown.

usage: table.py [--build build/release] [--configs DIR] [--rounds 2] [--precisions fp32 bf16] [--check]
DIR holds the configs of the TF Object Detection API whose networks the peers have: ssd_mobilenet_v1_300x300_coco14_sync.config and
ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync.config; without it the rows of whole steps are left out.
Needs a build with -DOSPREY_BUILD_BENCH=ON and a Python with torch and torchvision (scripts/setup.sh --tests makes build/venv).
Every program runs `rounds` times, alternating with what it is compared with; the best of each counts. PyTorch runs with each of
two allocators (glibc tuned by its environment, tcmalloc where it is installed) and, for steps, in both memory layouts, eager and
compiled (torch.compile); the best of these is the peer. The machine should have nothing else to do. With --check the exit code is
1 where a row does not reach what its last column says.
"""
import argparse
import pathlib
import sys

from programs import run

HERE = pathlib.Path(__file__).resolve().parent
TCMALLOC = pathlib.Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1", "MALLOC_TOP_PAD_": "67108864"}


def allocators():
    yield TUNED
    if TCMALLOC.exists():
        yield {"LD_PRELOAD": str(TCMALLOC)}


class Bench:
    def __init__(self, build, rounds):
        self.bin = pathlib.Path(build) / "bin"
        self.rounds = rounds

    def ours(self, program, *arguments):
        return run([self.bin / program, *arguments])

    def peer(self, script, *variants):
        """All variants of a peer with all allocators."""
        return [run([sys.executable, HERE / "peers" / script, *variant], allocator)
                for variant in (variants or [()]) for allocator in allocators()]

    def pairs(self, ours, peer):
        """ours() and peer(), alternating: two lists of what they gave."""
        mine, others = [], []
        for _ in range(self.rounds):
            mine.append(ours())
            others += peer()
        return mine, others


def least(rows, key):
    return min(row[key] for row in rows)


missed = []


def row(what, ours, peer, ratio, target, reached):
    print(f"| {what} | {ours} | {peer} | {ratio} | {target} |", flush=True)
    if not reached:
        missed.append(what)


def kernels(bench, resnet):
    found = [bench.ours("targets_bench") for _ in range(bench.rounds)]
    own, composed = least(found, "kernel_s"), least(found, "composed_s")
    memory = found[0]["kernel_mib"] / found[0]["composed_mib"]
    row("match + assign, 8 x 100 boxes, 51150 anchors; beside tensor operations", f"{own:.4f} s", f"{composed:.3f} s",
        f"{composed / own:.1f} times, {100 * memory:.1f} % of the memory", "10 times, 5 %", composed >= 10 * own and memory <= 0.05)
    found, others = bench.pairs(lambda: bench.ours("focal_loss_bench"), lambda: bench.peer("torchvision_focal_loss.py"))
    own, other = least(found, "kernel_s"), least(others, "torchvision_s")
    memory = found[0]["kernel_mib"] / found[0]["input_mib"]
    row("focal loss, forward and backward, [8, 51150, 90]; torchvision.ops.sigmoid_focal_loss", f"{own:.4f} s", f"{other:.3f} s",
        f"{other / own:.1f} times, {memory:.2f} times the input's memory", "8 times, twice", other >= 8 * own and memory <= 2)
    found, others = bench.pairs(lambda: bench.ours("nms_bench"), lambda: bench.peer("torchvision_nms.py"))
    own, other = least(found, "osprey_s"), least(others, "torchvision_s")
    row("decoding, scores and suppression, 51150 anchors, 90 classes; torchvision.ops.batched_nms", f"{own:.4f} s", f"{other:.3f} s",
        f"{other / own:.1f} times", "3 times", other >= 3 * own)
    if resnet:
        found, others = bench.pairs(lambda: bench.ours("optimizer_bench", resnet), lambda: bench.peer("torch_sgd.py"))
        own = least(found, "kernel_s") / found[0]["parameters"] * 1e9
        other = least(others, "foreach_s") / others[0]["parameters"] * 1e9
        row("momentum update, per parameter; torch.optim.SGD(foreach=True)", f"{own:.2f} ns", f"{other:.2f} ns",
            f"{other / own:.2f} times", "1.5 times", other >= 1.5 * own)


def outside(step, part="total"):
    """Share of the whole step that a part of it spends outside of convolutions; what those do to the maps that they read
    and write, batch norm in chains of them included, counts as convolution. The clock that tells them apart costs about a
    hundredth of a step, which is in the share."""
    return step["of_it_outside_convolutions"][part] / step["median_seconds"]["total"]


def outside_row(best, target, digits):
    share = outside(best)
    parts = ", ".join(f"{part.replace('_', ' ')} {100 * outside(best, part):.1f}" for part in best["median_seconds"] if part != "total")
    row("of it outside convolutions", f"{100 * share:.{digits}f} %: {parts}", "", "", f"{100 * target:.0f} %", share <= target)


def step(bench, what, config, batch, steps, peer, precision, target):
    """A row for a whole step beside all ways to run the peer. target: the ratio to reach, or None. returns  the better one of ours"""
    reduced = ("--bf16",) if precision == "bf16" else ()
    script, *arguments = peer
    variants = [(*arguments, "--steps", steps, *reduced, *layout, *mode)
                for layout in ((), ("--channels_last",)) for mode in ((), ("--compile",))]
    found, others = bench.pairs(
        lambda: bench.ours("step_bench", "--device", "cpu", "--pipeline_config", config, "--batch_size", batch, "--steps", steps, "--precision", precision),
        lambda: bench.peer(script, *variants))
    best, other = (max(some, key=lambda one: one["images_per_second"]) for some in (found, others))
    rates = [f"{one['images_per_second']:.3g} images/s, {one['peak_memory_mib']:.0f} MiB" for one in (best, other)]
    rates[1] += ", compiled" if other["compiled"] else ", eager"
    ratio = best["images_per_second"] / other["images_per_second"]
    row(f"training step, {what}, batch {batch}, {precision}", *rates, f"{ratio:.2f} times", f"{target} times" if target else "", ratio >= (target or 0))
    return best


def steps(bench, mobilenet, resnet, precision):
    target = 2 if precision == "bf16" else 1.5
    best = step(bench, "SSD MobileNet v1 300; PyTorch", mobilenet, 8, 8, ("ssd_mobilenet_v1_pytorch.py",), precision, target)
    outside_row(best, 0.35, 0)
    peer = ("torchvision_detectors.py", "retinanet_resnet50_fpn", "--batch_size", 2, "--size", 640)
    best = step(bench, "SSD ResNet-50 v1 FPN 640; torchvision's RetinaNet", resnet, 2, 3, peer, precision, 2 if precision == "bf16" else None)
    outside_row(best, 0.1, 1)
    if precision != "fp32":
        return
    peak = bench.ours("convolution_bench", "--device", "cpu", "--pipeline_config", resnet, "--batch_size", 2)
    work = sum(peak["directions"][name]["gflop"] for name in ("forward", "gradient of weights", "gradient of x"))
    rate = work / best["median_seconds"]["total"]
    share = rate / peak["peak"]["gflops"]
    row("of the convolution peak: the best rate of what makes all its products", f"{share:.2f}", f"{peak['peak']['gflops']:.0f} GFLOP/s", "", "0.75",
        share >= 0.75)
    row("of the best rate of any, tiles with fewer products included", f"{rate / peak['best']['gflops']:.2f}", f"{peak['best']['gflops']:.0f} GFLOP/s", "", "",
        True)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--build", default="build/release")
    flags.add_argument("--configs", type=pathlib.Path, help="folder of public configs")
    flags.add_argument("--rounds", type=int, default=2)
    flags.add_argument("--precisions", nargs="*", default=["fp32"], choices=["fp32", "bf16"], help="of whole steps")
    flags.add_argument("--check", action="store_true", help="exit code 1 where a row is short of what it has to reach")
    flags = flags.parse_args()
    bench = Bench(flags.build, flags.rounds)
    print("| what; beside | Osprey | peer | ratio | to reach |\n|---|---|---|---|---|")
    mobilenet, resnet = (flags.configs / name if flags.configs else None for name in
                         ("ssd_mobilenet_v1_300x300_coco14_sync.config",
                          "ssd_resnet50_v1_fpn_shared_box_predictor_640x640_coco14_sync.config"))
    kernels(bench, resnet)
    for precision in flags.precisions if flags.configs else ():
        steps(bench, mobilenet, resnet, precision)
    if flags.check and missed:
        sys.exit("table.py: short of what is to be reached: " + "; ".join(missed))


main()
