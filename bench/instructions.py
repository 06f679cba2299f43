"""What the compiler made of the kernels for GPUs, without one: prints a table in Markdown of how many instructions each needs for an
element of a map, and how long those take beside the way of the element's bytes through memory, on GPUs as their data sheets describe them.
Below 1 memory decides, if enough of it is on its way at a time; above 1 the instructions do.

usage: instructions.py [--build build/release] [--architecture sm_90]
Needs a build with nvcc, and cuobjdump (of a CUDA toolkit, or of the package triton that comes with PyTorch).
Counted is the innermost loop with the most arithmetic, all of its branches included: an upper bound. Not counted are the instructions
before and after it, which are few where maps are large.
"""
import argparse
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

# Kernels that are a loop over a map: file of src/kernels/device/, name in the object, what it is called, elements of an iteration, bytes of
# an element that go through memory, each once.
KERNELS = [
    ("batch_norm", "ColumnSums<Moments<Bfloat16, 8>>", "batch norm: moments", 64, 2),
    ("batch_norm", "Normalize<Bfloat16, 8, Clamp>", "batch norm: values, clamped", 32, 4),
    ("batch_norm", "Normalize<Bfloat16, 8, Swish>", "batch norm: values, swish", 32, 4),
    ("batch_norm", "ColumnSums<GradientMoments<Bfloat16, 8, Clamp>>", "batch norm: moments of gradients, clamped", 32, 4),
    ("batch_norm", "ColumnSums<GradientMoments<Bfloat16, 8, Swish>>", "batch norm: moments of gradients, swish", 32, 4),
    ("batch_norm", "ColumnSums<SumGradientMoments<Bfloat16, 8, true>>", "batch norm: the same of a sum, from two gradients", 16, 10),
    ("batch_norm", "GradientOfInput<Bfloat16, 8, Clamp>", "batch norm: gradient, clamped", 32, 6),
    ("batch_norm", "GradientOfInput<Bfloat16, 8, Swish>", "batch norm: gradient, swish", 32, 6),
    ("depthwise", "DepthwiseForward<Bfloat16, 3, 1>", "depthwise 3 x 3", 32, 4),
    ("depthwise", "DepthwiseForward<Bfloat16, 3, 2>", "depthwise 3 x 3, by two", 32, 10),
    ("depthwise", "DepthwiseForward<Bfloat16, 5, 1>", "depthwise 5 x 5", 32, 4),
    ("depthwise", "DepthwiseGradientByTwo<Bfloat16, 3>", "depthwise 3 x 3, by two: gradient of the map", 64, 2.5),
    ("depthwise", "DepthwiseWeightSums<Bfloat16, 3, 1>", "depthwise 3 x 3: gradient of the weights", 16, 4),
]
# Streaming multiprocessors, instructions a clock of each (of 32 lanes), GHz, TB/s.
GPUS = {"H100 SXM": (132, 4, 1.83, 3.35), "H200": (132, 4, 1.83, 4.8)}
ARITHMETIC = re.compile(r"(FFMA|FADD|FMUL|FSEL|FSETP|MUFU|DADD|HFMA2|HADD2)")


def find_cuobjdump():
    found = shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
    if found:
        return found
    triton = importlib.util.find_spec("triton")
    program = triton and pathlib.Path(triton.origin).parent / "backends/nvidia/bin/cuobjdump"
    if not program or not program.exists():
        sys.exit("instructions.py: cuobjdump was not found; a CUDA toolkit or the package triton has it")
    return str(program)


def shown(cuobjdump, flag, architecture, path):
    environment = {"PATH": f"{pathlib.Path(cuobjdump).parent}:/usr/bin:/bin"}  # it calls nvdisasm
    text = subprocess.run([cuobjdump, "-arch", architecture, flag, path], capture_output=True, text=True, check=True, env=environment).stdout
    return subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True).stdout


def kernel_name(line):
    """Of a demangled run_blocks<...>(...), its kernel without namespaces and casts."""
    match = re.search(r"run_blocks<(.*)>\(", line)
    return re.sub(r"\(int\)|\(bool\)|[\w]+::", "", match[1]).replace(" >", ">").strip() if match else None


def innermost(instructions):
    """The loop with the most arithmetic among those that hold no other: [(address, operation, operands)]."""
    loops = []
    for address, operation, operands in instructions:
        target = operation == "BRA" and re.search(r"0x([0-9a-f]+)", operands)
        if target and int(target[1], 16) < address:
            loops.append((int(target[1], 16), address))
    loops = [one for one in loops if not any(other != one and one[0] <= other[0] and other[1] <= one[1] for other in loops)]
    bodies = [[each for each in instructions if first <= each[0] <= last] for first, last in loops]
    bodies.append(instructions if not loops else [])
    return max(bodies, key=lambda body: sum(bool(ARITHMETIC.match(each[1])) for each in body))


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--build", type=pathlib.Path, default="build/release")
    flags.add_argument("--architecture", default="sm_90")
    given = flags.parse_args()
    cuobjdump = find_cuobjdump()
    code, registers = {}, {}
    for file in sorted({kernel[0] for kernel in KERNELS}):
        objects = list(given.build.glob(f"src/**/kernels/device/{file}.cu.o"))
        if not objects:
            sys.exit(f"instructions.py: no {file}.cu.o below {given.build}/src: not built with nvcc?")
        name = None
        for line in shown(cuobjdump, "-sass", given.architecture, objects[0]).splitlines():
            if "Function :" in line:
                name = kernel_name(line)
                code[name] = []
            instruction = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)(.*)", line)
            if instruction and name:
                code[name].append((int(instruction[1], 16), instruction[2], instruction[3]))
        for line in shown(cuobjdump, "-res-usage", given.architecture, objects[0]).splitlines():
            name = kernel_name(line) or name
            if "REG:" in line:
                registers[name] = int(re.search(r"REG:(\d+)", line)[1])
    print(f"| kernel, bfloat16, {given.architecture} | registers | instructions of an element | bytes of it | time of the former / of the latter: "
          + " | ".join(GPUS) + " |")
    print("|---" * (4 + len(GPUS)) + "|")
    for _, name, label, elements, size in KERNELS:
        body = innermost(code[name])
        per_element = len(body) / elements
        ratios = [per_element / (sms * issued * 32 * clock * 1e9) / (size / (bandwidth * 1e12)) for sms, issued, clock, bandwidth in GPUS.values()]
        print(f"| {label} | {registers[name]} | {per_element:.1f} | {size} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")


if __name__ == "__main__":
    main()
