"""Runs the model of a folder by ONNX Runtime: `model` on what inputs.json names, into outputs.json.

Each tensor is a file of plain numbers beside its name, type and shape in the list.
"""

import json
import pathlib
import sys

import numpy
import onnxruntime

folder = pathlib.Path(sys.argv[1])
options = onnxruntime.SessionOptions()
options.log_severity_level = 3  # errors
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(
    folder / "model",
    options,
    providers=["CPUExecutionProvider"],
    disabled_optimizers=["WeightBiasQuantization"],  # which rounds what a file holds as floats
)
inputs = {
    one["name"]: numpy.fromfile(folder / (one["name"] + ".in"), one["type"]).reshape(one["shape"])
    for one in json.loads((folder / "inputs.json").read_text())
}
described = []
for output, value in zip(session.get_outputs(), session.run(None, inputs)):
    value.tofile(folder / (output.name + ".out"))
    described.append({"name": output.name, "type": value.dtype.name, "shape": value.shape})
(folder / "outputs.json").write_text(json.dumps(described))
