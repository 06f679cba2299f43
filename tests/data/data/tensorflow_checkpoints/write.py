"""Writes the checkpoints of this folder: pip install tensorflow-cpu==2.15.1; python write.py

All hold the variables of a small detector, element i of variable number n being i + 100 n, moving averages of two of them (i + 100 n + 0.5),
what a momentum optimizer keeps, and step 12. `names` is of format V2 by names (TF1), `one_file` of format V1, `objects` object-based (TF2).
"""
import os
import pathlib
import shutil

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
SHAPES = {"net/conv1_weights": (3, 3, 3, 6), "net/conv1_beta": (6,), "net/conv2_weights": (1, 1, 6, 7), "net/conv2_biases": (7,),
          "net/moving_mean": (6,), "net/moving_variance": (6,)}
AVERAGED = ("net/conv1_weights", "net/conv2_biases")


def values(number, shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 100 * number


def write_by_names(name, version):
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [v1.get_variable(key, initializer=values(i, shape)) for i, (key, shape) in enumerate(SHAPES.items())]
        v1.get_variable("global_step", initializer=np.int64(12), trainable=False)
        optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
        optimizer.minimize(tf.add_n([tf.reduce_sum(variable) for variable in variables]), var_list=variables)
        for i, (key, shape) in enumerate(SHAPES.items()):
            if key in AVERAGED:
                v1.get_variable(key + "/ExponentialMovingAverage", initializer=values(i, shape) + np.float32(0.5))
        session.run(v1.global_variables_initializer())
        v1.train.Saver(write_version=version).save(session, f"{name}/model.ckpt", write_meta_graph=False)


class Detector(tf.Module):
    def __init__(self):
        super().__init__()
        self.parts = [tf.Variable(values(i, shape), name=name) for i, (name, shape) in enumerate(SHAPES.items())]


def write_by_objects(name):
    detector = Detector()
    optimizer = tf.keras.optimizers.legacy.SGD(0.0, momentum=0.9)
    optimizer.apply_gradients([(tf.ones_like(variable), variable) for variable in detector.parts])
    for variable in detector.parts:
        if variable.name[:-2] in AVERAGED:
            optimizer.add_slot(variable, "average", variable + 0.5)
    step = tf.Variable(12, dtype=tf.int64, trainable=False, name="global_step")
    tf.train.CheckpointManager(tf.train.Checkpoint(step=step, model=detector, optimizer=optimizer), name, 1).save()


os.chdir(pathlib.Path(__file__).parent)
for folder in ("names", "one_file", "objects"):
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
write_by_names("names", v1.train.SaverDef.V2)
write_by_names("one_file", v1.train.SaverDef.V1)
write_by_objects("objects")
