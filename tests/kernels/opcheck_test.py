"""The operators, as a Python program sees them that loads the library beside its own PyTorch: torch.library.opcheck tries their
schemas, gradients, shapes without values, and whether they can be compiled.

usage: opcheck_test.py BUILD_DIR
"""
import sys

import torch

torch.ops.load_library(f"{sys.argv[1]}/lib/libosprey.so")
torch.manual_seed(0)


def boxes(*shape):
    a, b = torch.rand(*shape, 2), torch.rand(*shape, 2)
    return torch.cat([torch.minimum(a, b), torch.maximum(a, b)], -1)


def maps():
    return torch.randn(2, 19, 7, 11).to(memory_format=torch.channels_last)


def of_point():
    return torch.randn(2, 23, 7, 11).to(memory_format=torch.channels_last)


def channels():
    return torch.rand(19, requires_grad=True)


def pending():
    return (torch.rand(19), torch.rand(19) + 0.5, torch.rand(19), None, 0.0, 6.0, 0)


def listed(*all):
    """What is pending of several maps: each tensor in a list, what none of them has in an empty one."""
    return [[part for part in parts if part is not None] if parts[0] is None or torch.is_tensor(parts[0]) else parts[0] for parts in zip(*all)]


class_targets = (torch.rand(2, 5, 13), torch.rand(2, 5, 1), torch.randint(0, 5, (2, 77)))
SAMPLES = {
    "preprocess": (torch.randint(0, 256, (2, 3, 9, 8), dtype=torch.uint8), torch.randint(1, 9, (2, 2)),
                   torch.randint(1, 9, (2, 2)), [12, 7], [0.5, 2.0, 1.0], [0.0, 0.0, 3.0], [0.0, 1.0, 2.0], torch.float32),
    "fold_pixels": (torch.randn(2, 3, 9, 8), [1, 0], [6, 5]),
    "max_pool": (maps().requires_grad_(), 3, 2, [1, 1, 0, 1]),
    "max_pool_backward": (maps()[:, :, :4, :5], torch.randint(0, 9, (2, 19, 4, 5), dtype=torch.uint8), [7, 11], 3, 2, [1, 1, 0, 0]),
    "match_anchors": (boxes(2, 9), torch.rand(2, 9) < 0.8, torch.rand(2, 9) < 0.8, boxes(300), True, 0.6, 0.3, True, True),
    "assign_targets": (boxes(2, 9), torch.rand(2, 9, 4), torch.rand(2, 9), torch.randint(-2, 9, (2, 50)), boxes(50),
                       [10.0, 10.0, 5.0, 5.0], True, 0.5),
    "decode_boxes": (torch.randn(2, 50, 4, requires_grad=True), boxes(50), [10.0, 10.0, 5.0, 5.0]),
    "decode_boxes_backward": (torch.randn(2, 50, 4), torch.randn(2, 50, 4), boxes(50), [10.0, 10.0, 5.0, 5.0]),
    "sigmoid_focal_loss": (torch.randn(2, 77, 13, requires_grad=True), *class_targets, 1.5, 0.25, True),
    "softmax_cross_entropy_loss": (torch.randn(2, 77, 13, requires_grad=True), *class_targets, 2.0, False),
    "smooth_l1_loss": (torch.randn(2, 30, 4, requires_grad=True), torch.randn(2, 30, 4), torch.rand(2, 30), 0.7, True),
    "encoded_smooth_l1_loss": (torch.randn(2, 30, 4, requires_grad=True), boxes(2, 9), torch.randint(-2, 9, (2, 30)), boxes(30),
                               [10.0, 10.0, 5.0, 5.0], torch.rand(2, 30), 0.7, True),
    "giou_loss": (boxes(2, 30).requires_grad_(), boxes(2, 30), torch.rand(2, 30), True),
    "scale_slopes": (torch.randn(2, 77, 13), torch.rand(2, 77), torch.float16),
    "scale_slopes_": (torch.randn(2, 77, 13), torch.rand(2, 77)),
    "batch_norm_activation": (maps().requires_grad_(), channels(), channels(), maps().requires_grad_(), 1e-3, 0.0, 6.0, 0),
    "batch_norm_activation_backward": (maps(), maps(), maps(), torch.rand(19), None, maps(), torch.rand(19), torch.rand(19), 0.0, 6.0, 0),
    "convolution_weight_gradient": ([torch.randn(2, 8, 5, 6)], [torch.randn(2, 4, 10, 12)], [3, 3], 2, [1, 1]),
    "convolution_bias_gradient": ([maps(), maps()],),
    "depthwise_convolution": (maps().requires_grad_(), torch.randn(19, 1, 3, 3, requires_grad=True), 2, [0, 1, 1, 1]),
    "depthwise_convolution_backward": (maps(), maps(), torch.randn(19, 1, 3, 3), 1, [1, 1, 1, 1], True),
    "pointwise_convolution": (maps().requires_grad_(), torch.randn(23, 19, 1, 1, requires_grad=True), torch.randn(23, requires_grad=True), False),
    "sliding_convolution": ([torch.randn(2, 16, side, 11).to(memory_format=torch.channels_last).requires_grad_() for side in (14, 3)],
                             torch.randn(23, 16, 3, 3, requires_grad=True), torch.randn(23, requires_grad=True), False),
    "packed_winograd_convolution": (torch.randn(1, 16, 16, 16).to(memory_format=torch.channels_last), torch.randn(36 * (2 * 16 + 1) * 16),
                                    torch.randn(23), 0.0, 6.0),
    "normalized_convolution": ([maps().requires_grad_(), maps().requires_grad_()], *listed(pending(), pending()), torch.randn(23, 19, 1, 1, requires_grad=True), 1, [0, 0, 0, 0], 1e-3),
    "normalized_convolution_backward": ([maps()], [torch.rand(19)], [], [torch.rand(19)], [maps()], [torch.rand(19)], [torch.rand(19) + 0.5], [maps()],
                                        *listed(pending()),
                                        torch.randn(19, 1, 3, 3), 1, [1, 1, 1, 1], True),
    "pending_values": (maps().requires_grad_(), *pending()),
    "pending_values_backward": (maps(), maps(), *pending()),
    "pending_sum": (maps().requires_grad_(), *pending()[:-3], maps().requires_grad_(), 0.0, 6.0),
    "pending_sum_backward": (maps(), maps(), maps(), maps(), *pending()[:-3], 0.0, 6.0),
    "summed_convolution": (maps().requires_grad_(), *pending()[:-3], maps().requires_grad_(), 0.0, 6.0,
                           torch.randn(23, 19, 1, 1, requires_grad=True), 1e-3),
    "summed_convolution_backward": (maps(), of_point(), torch.rand(23), None, maps(), of_point(), torch.rand(23), torch.rand(23) + 0.5, maps(),
                                    *pending()[:-3], 0.0, 6.0, torch.randn(23, 19, 1, 1)),
    "value_range": (maps(), *pending()),
    "rounded_values": (maps().requires_grad_(), *pending(), torch.tensor([-0.5, 5.0]), torch.tensor(True), 0),
    "rounded_values_backward": (maps(), maps(), *pending(), torch.tensor([-0.5, 5.0]), torch.tensor(True), 0),
    "squeeze": (maps().requires_grad_(), *pending()),
    "squeeze_backward": (maps(), torch.rand(2, 19), maps(), *pending()),
    "excite": (maps().requires_grad_(), *pending(), torch.rand(2, 19, requires_grad=True)),
    "excite_backward": (maps(), maps(), *pending(), torch.rand(2, 19)),
    "update_parameters": ([torch.rand(500)], [torch.rand(500)], [torch.rand(500)], [], 0, torch.tensor([0.9, 1.0, -0.1]), None),
    "finish_gradients": ([torch.randn(900), torch.randn(3, 4)], [torch.randn(900), torch.randn(3, 4)], torch.tensor([[0.0, 0.1], [0.2, 0.0]]),
                         torch.tensor(3.0)),
    "tensor_norms": ([torch.randn(900), torch.randn(3, 4)],),
    "scale_tensors": ([torch.randn(900), torch.randn(3, 4)], torch.rand(2)),
    "batch_non_max_suppression": (boxes(2, 400), torch.rand(2, 400, 5), torch.tensor([0.0, 0.0, 1.0, 1.0]), None, None, [], 0.3,
                                  0.5, 20, 30, 0.0, False, True, False, 0.0),
}

# Where a tensor that may be left out is.
MORE = [
    ("batch_norm_activation", (maps().requires_grad_(), None, channels(), None, 1e-3, 0.0, 6.0, 1)),
    ("batch_norm_activation_backward", (maps(), None, maps(), torch.rand(19), None, None, torch.rand(19), torch.rand(19), 0.0, 6.0, 1)),
    ("pending_sum_backward", (maps(), None, None, maps(), *pending()[:-3], 0.0, 6.0)),
    ("squeeze", (maps().requires_grad_(), None, None, None, None, 0.0, 6.0, 0)),
    ("squeeze_backward", (None, torch.rand(2, 19), maps(), None, None, None, None, 0.0, 6.0, 0)),
    ("excite", (maps().requires_grad_(), None, None, None, None, 0.0, 6.0, 0, torch.rand(2, 19, requires_grad=True))),
    ("rounded_values", (maps().requires_grad_(), None, None, None, None, 0.0, 6.0, 0, torch.tensor([-0.5, 5.0]), None, 1)),
    ("rounded_values_backward", (maps(), maps(), None, None, None, None, 0.0, 6.0, 0, torch.tensor([-0.5, 5.0]), None, 1)),
    ("excite_backward", (maps(), maps(), None, None, None, None, 0.0, 6.0, 0, torch.rand(19, 2).t())),
]

registered = {name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("osprey::")}
assert registered == set(SAMPLES), registered ^ set(SAMPLES)
failures = []
for name, arguments in [*SAMPLES.items(), *MORE]:
    results = torch.library.opcheck(getattr(torch.ops.osprey, name).default, arguments, raise_exception=False)
    for check, result in results.items():
        if result != "SUCCESS":
            failures.append(f"{name}, {check}: {str(result)[:500]}")
print("\n".join(failures) or f"{len(SAMPLES)} operators, all checks passed")
sys.exit(1 if failures else 0)
