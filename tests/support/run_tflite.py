"""Runs the model of a folder by LiteRT: `model` on what inputs.json names, into outputs.json, as run_onnx.py does."""

import json
import pathlib
import sys

import numpy
from ai_edge_litert.interpreter import Interpreter

folder = pathlib.Path(sys.argv[1])
interpreter = Interpreter(model_content=(folder / "model").read_bytes(), num_threads=2)
interpreter.allocate_tensors()
places = {one["name"]: one["index"] for one in interpreter.get_input_details()}
for one in json.loads((folder / "inputs.json").read_text()):
    values = numpy.fromfile(folder / (one["name"] + ".in"), one["type"]).reshape(one["shape"])
    interpreter.set_tensor(places[one["name"]], values)
interpreter.invoke()
described = []
for output in interpreter.get_output_details():
    value = interpreter.get_tensor(output["index"])
    value.tofile(folder / (output["name"] + ".out"))
    described.append({"name": output["name"], "type": value.dtype.name, "shape": value.shape})
(folder / "outputs.json").write_text(json.dumps(described))
