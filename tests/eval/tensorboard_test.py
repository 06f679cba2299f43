"""TensorBoard reads the event files that Osprey writes: scalars, histograms, pictures and curves come back.

usage: tensorboard_test.py BUILD_DIR
"""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.pr_curve.pr_curves_plugin import PrCurvesPlugin
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "tests" / "eval_test"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--gtest_filter=EventWriterTest.WritesOneOfEachKindForTensorBoard"], check=True,
                       env=dict(os.environ, OSPREY_EVENT_FOLDER=folder), stdout=subprocess.DEVNULL)
        events = EventAccumulator(folder, size_guidance={"histograms": 0, "images": 0, "scalars": 0})
        events.Reload()
        assert events.Tags()["scalars"] == ["Loss/total_loss"], events.Tags()
        assert [(e.step, e.value) for e in events.Scalars("Loss/total_loss")] == [(0, 0.0), (1, 0.5), (2, 1.0)]
        histogram = events.Histograms("weights")[0].histogram_value
        assert (histogram.num, histogram.min, histogram.max, histogram.sum) == (100, 0, 99, 4950), histogram
        assert sum(histogram.bucket) == 100
        image = events.Images("train_input_images")[0]
        assert (image.width, image.height) == (6, 4) and image.encoded_image_string.startswith(b"\x89PNG")
        curves = EventMultiplexer().AddRunsFromDirectory(folder).Reload()
        plugin = PrCurvesPlugin(TBContext(data_provider=MultiplexerDataProvider(curves, folder)))
        assert list(plugin.tags_impl(RequestContext(), "")["."]) == ["curves/cat"]
        curve, = plugin.pr_curves_impl(RequestContext(), "", ["."], "curves/cat")["."]
        assert curve["step"] == 2 and curve["thresholds"] == [0, 0.5], curve  # with 1 nothing is found
        assert (curve["true_positives"], curve["false_positives"]) == ([3, 1], [1, 0]), curve
        assert (curve["precision"], curve["recall"]) == ([0.75, 1], [0.75, 0.25]), curve
        print("tensorboard reads scalars, histogram, picture and curve")


main()
