"""A picture through an exported model.onnx by ONNX Runtime or OpenVINO; prints a JSON object like that of `detect --benchmark`.

    pip install onnxruntime openvino pillow
    python bench/peers/onnx_detector.py exported/model.onnx photo.jpg --runtime openvino --calls 40
"""
import argparse
import json
import statistics
import time

import numpy as np
from PIL import Image


def onnx_runtime(file, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options)
    return lambda picture: session.run(None, {"input_tensor": picture}), onnxruntime.__version__


def openvino(file, threads):
    import openvino
    model = openvino.Core().compile_model(file, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    return lambda picture: request.infer({"input_tensor": picture}), openvino.__version__


RUNTIMES = {"onnxruntime": onnx_runtime, "openvino": openvino}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("model")
    flags.add_argument("picture")
    flags.add_argument("--runtime", choices=RUNTIMES, default="onnxruntime")
    flags.add_argument("--calls", type=int, default=40)
    flags.add_argument("--threads", type=int, default=2)
    args = flags.parse_args()

    run, version = RUNTIMES[args.runtime](args.model, args.threads)
    picture = np.asarray(Image.open(args.picture).convert("RGB"))[None]
    seconds = []
    for number in range(-3, args.calls):
        start = time.perf_counter()
        run(picture)
        if number >= 0:
            seconds.append(time.perf_counter() - start)
    print(json.dumps({"model": args.model, "runtime": f"{args.runtime} {version}", "threads": args.threads,
                      "average_ms": 1e3 * statistics.mean(seconds), "median_ms": 1e3 * statistics.median(seconds)}))


main()
