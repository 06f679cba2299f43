"""What a GPU does in a training step: share of the time in kernels, launches, waits, and the kernels that take longest, as Markdown.

usage: trace.py --pipeline_config F [--batch_size 64] [--precision bf16] [--steps 30] [--kernels 25] [--trace FILE] [--build build/release]
       [-- FLAGS]
Steps are those of `train_detector --benchmark_steps --trace` on made-up pictures; FLAGS go to it, too. Kernels are timed in the traced steps,
and their sum stands beside the time of a step that was not traced, because tracing takes time between kernels.
"""
import argparse
import collections
import json
import pathlib
import re
import sys
import tempfile

from programs import run

WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize")


def short(name):
    """The name of a kernel without what is the same in many. Ours are all called run_blocks, by the type of their argument."""
    ours = re.search(r"run_blocks<(.*)>\(", name)
    name = (ours[1] if ours else name).replace("osprey::kernels::device::", "").replace("osprey::kernels::", "").replace("void ", "")
    return ("osprey: " if ours else "") + re.sub(r"\s+", " ", name)


def share_covered(events):
    """The part of the time from the first event's begin to the last one's end in which there is one."""
    spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in events)
    covered, end = 0, spans[0][0]
    for first, last in spans:
        covered += max(last - max(first, end), 0)
        end = max(end, last)
    return covered / (end - spans[0][0])


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--pipeline_config", required=True)
    flags.add_argument("--batch_size", type=int, default=64)
    flags.add_argument("--precision", default="bf16")
    flags.add_argument("--steps", type=int, default=30)
    flags.add_argument("--kernels", type=int, default=25)
    flags.add_argument("--trace", type=pathlib.Path, help="keeps the trace")
    flags.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    flags.add_argument("flags", nargs="*", help="of train_detector, after --")
    flags = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = flags.trace or pathlib.Path(folder) / "trace.json"
        step = run([flags.build / "bin/train_detector", "--pipeline_config", flags.pipeline_config, "--use_fake_data", "--device", "cuda",
                    "--set", "train_config.fine_tune_checkpoint=", "--set", "train_input_reader.label_map_path=",
                    "--train_batch_size", flags.batch_size, "--precision", flags.precision,
                    "--benchmark_steps", flags.steps, "--trace", trace, *flags.flags])
        events = [event for event in json.loads(trace.read_text(errors="replace"))["traceEvents"] if event.get("ph") == "X"]
    traced_steps = step["traced_steps"]
    of_kind = collections.defaultdict(list)
    for event in events:
        of_kind[event.get("cat")].append(event)
    kernels, copies = of_kind["kernel"], of_kind["gpu_memcpy"] + of_kind["gpu_memset"]
    if not kernels:
        sys.exit("trace.py: no kernels in the trace: did the steps run on a GPU?")
    milliseconds = lambda some: sum(event["dur"] for event in some) * 1e-3 / traced_steps
    whole = 1e3 * step["median_step_seconds"]
    waits = collections.Counter(event["name"] for event in of_kind["cuda_runtime"] + of_kind["cuda_driver"] if event["name"] in WAITS)
    to_host = sum("DtoH" in event["name"] for event in copies)
    print(json.dumps(step))
    print(f"\n{pathlib.Path(flags.pipeline_config).stem}, batch {flags.batch_size}, {flags.precision}\n"
          f"a step, not traced: {whole:.3f} ms; its kernels, traced: {milliseconds(kernels):.3f} ms ({100 * milliseconds(kernels) / whole:.1f} %), "
          f"copies and fills {milliseconds(copies):.3f} ms; while traced, something ran in {100 * share_covered(kernels + copies):.1f} % of the time\n"
          f"a step: {len(kernels) / traced_steps:g} kernels, {len(copies) / traced_steps:g} copies and fills\n"
          f"all {traced_steps} steps and their end: {to_host} copies to the host, waits of the CPU: {dict(waits) or 'none'}\n")
    by_name = collections.defaultdict(list)
    for event in kernels:
        by_name[short(event["name"])].append(event)
    print("| kernel | a step | ms of it | % |\n|---|---|---|---|")
    for name, some in sorted(by_name.items(), key=lambda item: -milliseconds(item[1]))[:flags.kernels]:
        print(f"| `{name[:150]}` | {len(some) / traced_steps:g} | {milliseconds(some):.3f} | {100 * milliseconds(some) / milliseconds(kernels):.1f} |")


main()
