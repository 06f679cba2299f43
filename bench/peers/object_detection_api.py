"""The TensorFlow Object Detection API (TF2) on a pipeline.config, for comparison with Osprey's numbers, not its speed:

    start CONFIG FOLDER         writes a checkpoint of first weights, for `fine_tune_checkpoint: "FOLDER/ckpt-1"`
    train CONFIG MODEL_DIR      trains, prints the losses of each step as JSON lines; --beside metrics.jsonl prints instead
                                how far those of train_detector are from them
    evaluate CONFIG CHECKPOINT  prints the metrics and losses of a checkpoint on the config's evaluation data as JSON

Made for one process on a CPU, Python 3.11. Some of the package's imports are not needed here and are stood in for, EfficientNet
among them.

    pip install tensorflow-cpu==2.15.1 tf_slim==1.1.0 'numpy<2' 'protobuf==4.25.*' pycocotools lvis matplotlib scipy lxml
    pip install --no-deps tf-models-research-object-detection==2.8.0.post1 tensorflow-addons==0.23.0 typeguard==2.13.3
    python bench/peers/object_detection_api.py train pipeline.config /tmp/theirs --beside /tmp/ours/metrics.jsonl
"""
import argparse
import json
import os
import sys
from pathlib import Path
from unittest.mock import MagicMock

os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")  # the package's protos are of an old protoc
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

for name in ["tensorflow_io", "official", "official.modeling", "official.modeling.optimization", "official.legacy",
             "official.legacy.image_classification", "official.legacy.image_classification.efficientnet"]:
    sys.modules[name] = MagicMock()

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_ops

# tf_slim looks for these where TensorFlow had them in 2021.
np.int = int
ops.Tensor = tf.Tensor
control_flow_ops.case, control_flow_ops.cond = tf.case, tf.cond

from object_detection import inputs, model_lib_v2
from object_detection.builders import model_builder
from object_detection.utils import config_util
from tensorflow.python.summary.summary_iterator import summary_iterator

LOSSES = ["localization", "classification", "regularization", "total"]


def built_model(configs, training):
    """The model with its variables, which the first pictures make."""
    model = model_builder.build(configs["model"], is_training=training)
    size = configs["model"].ssd.image_resizer.fixed_shape_resizer
    pictures = tf.zeros([1, size.height, size.width, 3])
    model.predict(pictures, tf.constant([[size.height, size.width, 3]]))
    return model


def start(args):
    model = built_model(config_util.get_configs_from_pipeline_file(args.config), training=True)
    print(tf.train.Checkpoint(model=model).save(str(args.folder / "ckpt")))


def scalars(folder):
    """What the event files of a folder say, by step and tag."""
    rows = {}
    for file in folder.iterdir():
        for event in summary_iterator(str(file)):
            for value in event.summary.value:
                if value.HasField("tensor") and (number := tf.make_ndarray(value.tensor)).ndim == 0:
                    rows.setdefault(event.step, {})[value.tag] = float(number)
    return rows


def train(args):
    model_lib_v2.train_loop(args.config, str(args.model_dir), checkpoint_every_n=10**9, record_summaries=False,
                            num_steps_per_iteration=1)
    theirs = {step: {name: row[f"Loss/{name}_loss"] for name in LOSSES} for step, row in scalars(args.model_dir / "train").items()}
    if args.beside is None:
        for step, row in sorted(theirs.items()):
            print(json.dumps({"step": step} | row))
        return
    for line in args.beside.read_text().splitlines():
        ours = json.loads(line)
        if "total_loss" in ours and (row := theirs.get(ours["step"])):
            print(ours["step"], *(f"{name} {row[name]:.6f} ({ours[name + '_loss'] / row[name] - 1:+.1e})" for name in LOSSES))


def evaluate(args):
    configs = config_util.get_configs_from_pipeline_file(args.config)
    tf.keras.backend.clear_session()
    model = built_model(configs, training=True)
    data = inputs.eval_input(configs["eval_config"], configs["eval_input_configs"][0], configs["model"], model)
    step = tf.Variable(0, trainable=False, dtype=tf.int64)
    tf.train.Checkpoint(step=step, model=model).restore(args.checkpoint).expect_partial()
    metrics = model_lib_v2.eager_eval_loop(model, configs, data, global_step=step)
    print(json.dumps({name: float(value) for name, value in metrics.items()}))


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = flags.add_subparsers(required=True)
    for command, *arguments in [(start, ("folder", Path)), (train, ("model_dir", Path)), (evaluate, ("checkpoint", str))]:
        parser = commands.add_parser(command.__name__)
        parser.set_defaults(command=command)
        parser.add_argument("config")
        for name, kind in arguments:
            parser.add_argument(name, type=kind)
        if command is train:
            parser.add_argument("--beside", type=Path, help="metrics.jsonl of train_detector")
    args = flags.parse_args()
    args.command(args)


if __name__ == "__main__":
    main()
