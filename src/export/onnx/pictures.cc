#include "export/onnx/pictures.h"

namespace osprey {
namespace {

struct Size {
  OnnxValue height, width;  ///< [] int64
};

/// A length times a scale, rounded to whole pixels.
OnnxValue scaled(OnnxGraph& graph, const OnnxValue& length, const OnnxValue& scale) {
  return graph.cast(graph.add("Round", {graph.add("Mul", {scale, graph.cast(length, at::kFloat)})}), at::kLong);
}

/// The size in which `pictures` lie on the canvas: of the short side `min_dimension`, or of the long side
/// `max_dimension` where that would be longer.
Size content_size(OnnxGraph& graph, const Size& pictures, const ServedResize& resize) {
  if (resize.max_dimension == 0) return {graph.integer(resize.height), graph.integer(resize.width)};
  const auto scale_to = [&](int64_t length, const char* side) {
    const OnnxValue now = graph.cast(graph.add(side, {pictures.height, pictures.width}), at::kFloat);
    return graph.add("Div", {graph.number(static_cast<double>(length)), now});
  };
  const OnnxValue by_short = scale_to(resize.min_dimension, "Min"), by_long = scale_to(resize.max_dimension, "Max");
  const auto both = [&](const OnnxValue& scale) {
    return Size{scaled(graph, pictures.height, scale), scaled(graph, pictures.width, scale)};
  };
  const Size wanted = both(by_short), limited = both(by_long);
  const OnnxValue too_long =
      graph.add("Greater", {graph.add("Max", {wanted.height, wanted.width}), graph.integer(resize.max_dimension)});
  return {graph.add("Where", {too_long, limited.height, wanted.height}),
          graph.add("Where", {too_long, limited.width, wanted.width})};
}

/// Resizes one dimension of x [B, H, W, 3] to `length`: each place lies between two of x, and the first of them keeps
/// the share that is left. gives float32
OnnxValue stretch(OnnxGraph& graph, const OnnxValue& x, int64_t axis, const OnnxValue& from, const OnnxValue& length) {
  const OnnxValue scale = graph.add("Div", {graph.cast(from, at::kFloat), graph.cast(length, at::kFloat)});
  const OnnxValue places = graph.add("Range", {graph.integer(0), length, graph.integer(1)});
  const OnnxValue at = graph.add("Mul", {graph.cast(places, at::kFloat), scale});
  const OnnxValue last = graph.add("Sub", {from, graph.integer(1)});
  const OnnxValue low = graph.add("Min", {graph.cast(graph.add("Floor", {at}), at::kLong), last});
  const OnnxValue high = graph.add("Min", {graph.add("Add", {low, graph.integer(1)}), last});
  std::vector<int64_t> shape(4, 1);
  shape[axis] = -1;
  const OnnxValue share = graph.reshape(graph.add("Sub", {at, graph.cast(low, at::kFloat)}), shape);
  const auto at_places = [&](const OnnxValue& index) {
    return graph.cast(graph.add("Gather", {x, index}, {{"axis", axis}}), at::kFloat);
  };
  const OnnxValue first = at_places(low);
  return graph.add("Add", {first, graph.add("Mul", {graph.add("Sub", {at_places(high), first}), share})});
}

}  // namespace

OnnxCanvas add_resize(OnnxGraph& graph, const OnnxValue& pictures, const ServedResize& resize) {
  const Size before{graph.size(pictures, 1), graph.size(pictures, 2)};
  const Size content = content_size(graph, before, resize);
  const OnnxValue columns = stretch(graph, pictures, 2, before.width, content.width),
                  rows = stretch(graph, columns, 1, before.height, content.height);
  const OnnxValue levels = graph.add("Floor", {graph.add("Add", {rows, graph.number(0.5)})});
  OnnxValue images = graph.add("Transpose", {graph.add("Clip", {levels, graph.number(0), graph.number(255)})},
                               {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  if (resize.max_dimension != 0) {
    const auto space = [&](int64_t length, const OnnxValue& used) {
      return graph.unsqueeze(graph.add("Sub", {graph.integer(length), used}), 0);
    };
    images = graph.add("Pad", {images,
                               graph.concat({graph.integers({0, 0, 0, 0, 0, 0}), space(resize.height, content.height),
                                             space(resize.width, content.width)},
                                            0),
                               graph.number(0)});
  }
  return {graph.reshape(images, {0, 3, resize.height, resize.width}), content.height, content.width};
}

}  // namespace osprey
