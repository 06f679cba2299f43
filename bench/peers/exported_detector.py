"""A picture through an exported model by another runtime; prints a JSON object like that of `detect --benchmark`.

    pip install onnxruntime openvino ai-edge-litert pillow
    python bench/peers/exported_detector.py exported/model.onnx photo.jpg --runtime openvino --calls 40
    python bench/peers/exported_detector.py exported/model.tflite photo.jpg --runtime litert

model.onnx takes the picture as it is; for model.tflite it is resized and normalised before the clock runs.
"""
import argparse
import json
import statistics
import time

import numpy as np
from PIL import Image


def onnx_runtime(file, picture, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options)
    return lambda: session.run(None, {"input_tensor": np.asarray(picture)[None]}), onnxruntime.__version__


def openvino(file, picture, threads):
    import openvino
    model = openvino.Core().compile_model(file, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    return lambda: request.infer({"input_tensor": np.asarray(picture)[None]}), openvino.__version__


def litert(file, picture, threads):
    import ai_edge_litert
    from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter(file, num_threads=threads)
    interpreter.allocate_tensors()
    entry = interpreter.get_input_details()[0]
    pixels = np.asarray(picture.resize((entry["shape"][2], entry["shape"][1])))[None]
    values = pixels if entry["dtype"] == np.uint8 else (pixels / 127.5 - 1).astype(np.float32)

    def run():
        interpreter.set_tensor(entry["index"], values)
        interpreter.invoke()
        return [interpreter.get_tensor(output["index"]) for output in interpreter.get_output_details()]

    return run, ai_edge_litert.__version__


RUNTIMES = {"onnxruntime": onnx_runtime, "openvino": openvino, "litert": litert}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("model")
    flags.add_argument("picture")
    flags.add_argument("--runtime", choices=RUNTIMES, default="onnxruntime")
    flags.add_argument("--calls", type=int, default=40)
    flags.add_argument("--threads", type=int, default=2)
    args = flags.parse_args()

    run, version = RUNTIMES[args.runtime](args.model, Image.open(args.picture).convert("RGB"), args.threads)
    seconds = []
    for number in range(-3, args.calls):
        start = time.perf_counter()
        run()
        if number >= 0:
            seconds.append(time.perf_counter() - start)
    print(json.dumps({"model": args.model, "runtime": f"{args.runtime} {version}", "threads": args.threads,
                      "average_ms": 1e3 * statistics.mean(seconds), "median_ms": 1e3 * statistics.median(seconds)}))


main()
