#include "osprey/kernels/depthwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/loops/depthwise_rows.h"
#include "kernels/operator.h"
#include "osprey/kernels/device.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

constexpr int64_t kMostTaps = 7;  // of a side; what has been measured
constexpr int64_t kRowsOfATask = 16;

/// One side of a map, of its result, and of the kernel between them.
struct Side {
  int64_t from, to, kernel, stride, before;

  bool sees(int64_t target, int64_t tap) const {
    const int64_t source = target * stride - before + tap;
    return source >= 0 && source < from;
  }
};

/// A tap, and what it sees at some place. Of one place these are in the order of what they see, without gaps.
struct Tap {
  int64_t tap, source;
  bool operator==(const Tap&) const = default;
};

/// What each place of the result sees of the map.
std::vector<std::vector<Tap>> forward_taps(const Side& side) {
  std::vector<std::vector<Tap>> result(side.to);
  for (int64_t target = 0; target < side.to; ++target)
    for (int64_t tap = 0; tap < side.kernel; ++tap)
      if (side.sees(target, tap)) result[target].push_back({tap, target * side.stride - side.before + tap});
  return result;
}

/// What each place of the map has been seen by.
std::vector<std::vector<Tap>> backward_taps(const Side& side) {
  std::vector<std::vector<Tap>> result(side.from);
  for (int64_t target = 0; target < side.to; ++target)
    for (int64_t tap = 0; tap < side.kernel; ++tap)
      if (side.sees(target, tap)) result[target * side.stride - side.before + tap].push_back({tap, target});
  return result;
}

/// Places in a row that see by the same taps.
struct Run {
  int64_t first, count = 1;
  std::vector<Tap> taps;  ///< of the first
};

/// A row of places, each in one run: those of a run lie `step` apart, and what they see `source_step`.
struct Runs {
  std::vector<Run> runs;
  int64_t step, source_step;

  Runs(const std::vector<std::vector<Tap>>& taps, int64_t places, int64_t sources)
      : step(places), source_step(sources) {
    const auto count = static_cast<int64_t>(taps.size());
    for (int64_t phase = 0; phase < std::min(step, count); ++phase) {
      runs.push_back({phase, 1, taps[phase]});
      for (int64_t place = phase + step; place < count; place += step) {
        std::vector<Tap> continued = runs.back().taps;
        for (Tap& tap : continued) tap.source += runs.back().count * source_step;
        if (continued == taps[place]) {
          ++runs.back().count;
        } else {
          runs.push_back({place, 1, taps[place]});
        }
      }
    }
  }
};

/// A map of one picture: rows of pixels of channels.
struct Map {
  const float* data;
  int64_t width, depth;
};

struct Geometry {
  Side rows, columns;
  int64_t depth;
};

/// What a run of pixels of one row sees through the taps of some rows of the kernel.
cpu::SeenPixels seen_by(const Map& map, const std::vector<Tap>& rows, const Runs& columns, const Run& run) {
  cpu::SeenPixels seen{map.data,
                       static_cast<int64_t>(rows.size()),
                       static_cast<int64_t>(run.taps.size()),
                       map.width * map.depth,
                       columns.source_step,
                       map.depth};
  if (seen.rows > 0 && seen.columns > 0)
    seen.first += (rows.front().source * map.width + run.taps.front().source) * map.depth;
  return seen;
}

/// Of the values of all taps those of these taps.
template <class T>
cpu::OfTaps<T> of_taps(T* all, const std::vector<Tap>& rows, const Run& run, const Geometry& g) {
  const int64_t row = g.columns.kernel * cpu::kLanes;
  if (rows.empty() || run.taps.empty()) return {all, 0, 0, 0};
  const auto step = [](const std::vector<Tap>& taps) { return taps.size() > 1 ? taps[1].tap - taps[0].tap : 0; };
  return {all + rows.front().tap * row + run.taps.front().tap * cpu::kLanes, step(rows) * row,
          step(run.taps) * cpu::kLanes, g.rows.kernel * row};
}

/// One row of the result, or of the gradient of the map.
void sum_row(const Map& map, const std::vector<Tap>& rows, const Runs& columns, const float* weights, const Geometry& g,
             float* result) {
  for (const Run& run : columns.runs)
    cpu::weighted_sums(seen_by(map, rows, columns, run), of_taps(weights, rows, run, g), run.count,
                       result + run.first * g.depth, columns.step * g.depth);
}

/// What one row of gradients adds to that of the weights.
void add_row(const Map& map, const std::vector<Tap>& rows, const Runs& columns, const float* gradient,
             const Geometry& g, float* sums) {
  for (const Run& run : columns.runs)
    cpu::add_products(seen_by(map, rows, columns, run), gradient + run.first * g.depth, run.count,
                      of_taps(sums, rows, run, g));
}

Geometry geometry(const at::Tensor& x, const at::Tensor& weights, int64_t stride, at::IntArrayRef padding) {
  TORCH_CHECK(stride > 0 && padding.size() == 4, "a window has a stride > 0 and four paddings");
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4 && weights.size(0) == x.size(1) && weights.size(1) == 1,
              "expected maps [B, C, H, W] and weights [C, 1, height, width], got ", x.sizes(), " and ",
              weights.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat && weights.scalar_type() == at::kFloat, "expected float32");
  const auto side = [&](int64_t dimension, int64_t before, int64_t after) {
    const int64_t from = x.size(dimension), kernel = weights.size(dimension);
    TORCH_CHECK(kernel > 0 && kernel <= kMostTaps && before >= 0 && after >= 0 && before + from + after >= kernel,
                "a kernel of ", weights.sizes(), " does not move over ", x.sizes(), " with padding ", padding);
    return Side{from, (before + from + after - kernel) / stride + 1, kernel, stride, before};
  };
  return {side(2, padding[0], padding[1]), side(3, padding[2], padding[3]), x.size(1)};
}

const float* data(const at::Tensor& map) { return map.const_data_ptr<float>(); }

at::Tensor channels_last(const at::Tensor& map) { return map.contiguous(at::MemoryFormat::ChannelsLast); }

/// [C, 1, height, width] -> [C / lanes, height * width, lanes]
at::Tensor to_lanes(const at::Tensor& weights) {
  const int64_t lanes = cpu::kLanes, groups = (weights.size(0) + lanes - 1) / lanes;
  return at::constant_pad_nd(weights.flatten(1), {0, 0, 0, groups * lanes - weights.size(0)})
      .view({groups, lanes, -1})
      .transpose(1, 2)
      .contiguous();
}

at::Tensor from_lanes(const at::Tensor& lanes, const at::Tensor& like) {
  return lanes.transpose(1, 2).flatten(0, 1).narrow(0, 0, like.size(0)).contiguous().view(like.sizes());
}

/// Tasks that a picture of so many rows is divided into.
int64_t tasks_of(int64_t rows) { return (rows + kRowsOfATask - 1) / kRowsOfATask; }

/// Calls `work(task, picture, begin, end)` for the rows of all pictures, few at a time.
template <class Work>
void for_rows(int64_t pictures, int64_t rows, Work work) {
  const int64_t tasks = tasks_of(rows);
  parallel_for(pictures * tasks, [&](int64_t i) {
    const int64_t begin = i % tasks * kRowsOfATask;
    work(i, i / tasks, begin, std::min(begin + kRowsOfATask, rows));
  });
}

at::Tensor padded(const at::Tensor& x, at::IntArrayRef padding) {
  return at::constant_pad_nd(x, {padding[2], padding[3], padding[0], padding[1]});
}

at::Tensor depthwise_operator(const at::Tensor& x, const at::Tensor& weights, int64_t stride, at::IntArrayRef padding) {
  const Geometry g = geometry(x, weights, stride, padding);
  at::Tensor result =
      at::empty({x.size(0), g.depth, g.rows.to, g.columns.to}, x.options(), at::MemoryFormat::ChannelsLast);
  if (x.is_meta() || x.numel() == 0) return result;
  if (!device::takes_loops(x))
    return channels_last(
        at::conv2d(padded(x, padding), weights, {}, {stride, stride}, at::IntArrayRef{0, 0}, {1, 1}, g.depth));
  const at::Tensor maps = channels_last(x), taps = to_lanes(weights);
  const auto rows = forward_taps(g.rows);
  const Runs columns(forward_taps(g.columns), 1, stride);
  const int64_t picture = g.rows.from * g.columns.from * g.depth, row = g.columns.to * g.depth;
  float* const out = result.mutable_data_ptr<float>();
  for_rows(x.size(0), g.rows.to, [&](int64_t, int64_t b, int64_t begin, int64_t end) {
    const Map map{data(maps) + b * picture, g.columns.from, g.depth};
    for (int64_t y = begin; y < end; ++y)
      sum_row(map, rows[y], columns, data(taps), g, out + (b * g.rows.to + y) * row);
  });
  return result;
}

std::tuple<at::Tensor, at::Tensor> depthwise_backward_operator(const at::Tensor& gradient_y, const at::Tensor& x,
                                                               const at::Tensor& weights, int64_t stride,
                                                               at::IntArrayRef padding, bool of_x) {
  const Geometry g = geometry(x, weights, stride, padding);
  TORCH_CHECK(gradient_y.sizes() == at::IntArrayRef({x.size(0), g.depth, g.rows.to, g.columns.to}) &&
                  gradient_y.scalar_type() == at::kFloat,
              "a convolution of ", x.sizes(), " has no gradient of ", gradient_y.sizes());
  at::Tensor gradient_x =
      at::empty(of_x ? x.sizes() : at::IntArrayRef{0, 0, 0, 0}, x.options(), at::MemoryFormat::ChannelsLast);
  if (x.is_meta()) return {gradient_x, at::empty(weights.sizes(), weights.options())};
  if (x.numel() == 0) return {gradient_x, at::zeros(weights.sizes(), weights.options())};
  if (!device::takes_loops(x)) {
    const at::Tensor wide = padded(x, padding);
    const auto [of_wide, of_weights, none] =
        at::convolution_backward(gradient_y, wide, weights, at::OptionalIntArrayRef(), {stride, stride}, {0, 0}, {1, 1},
                                 /*transposed=*/false, {0, 0}, g.depth, {of_x, true, false});
    if (of_x) gradient_x = channels_last(of_wide.narrow(2, padding[0], x.size(2)).narrow(3, padding[2], x.size(3)));
    return {gradient_x, of_weights.contiguous()};
  }
  const at::Tensor maps = channels_last(x), gradients = channels_last(gradient_y), taps = to_lanes(weights);
  const auto rows = forward_taps(g.rows), rows_back = backward_taps(g.rows);
  const Runs columns(forward_taps(g.columns), 1, stride), columns_back(backward_taps(g.columns), stride, 1);
  const int64_t picture = g.rows.from * g.columns.from * g.depth, row = g.columns.from * g.depth,
                row_y = g.columns.to * g.depth;
  const at::Tensor sums =
      at::zeros({x.size(0) * tasks_of(g.rows.to), taps.size(0), taps.size(1), taps.size(2)}, x.options());
  float* const sum_data = sums.mutable_data_ptr<float>();
  float* const out = of_x ? gradient_x.mutable_data_ptr<float>() : nullptr;
  for_rows(x.size(0), g.rows.to, [&](int64_t task, int64_t b, int64_t begin, int64_t end) {
    const Map map{data(maps) + b * picture, g.columns.from, g.depth};
    const Map gradient{data(gradients) + b * g.rows.to * row_y, g.columns.to, g.depth};
    for (int64_t y = begin; y < end; ++y) {
      add_row(map, rows[y], columns, gradient.data + y * row_y, g, sum_data + task * taps.numel());
      // While the rows of the gradient are at hand: those of the map that lie beside it.
      const int64_t last = y + 1 == g.rows.to ? g.rows.from : std::min((y + 1) * stride, g.rows.from);
      for (int64_t source = y * stride; of_x && source < last; ++source)
        sum_row(gradient, rows_back[source], columns_back, data(taps), g, out + b * picture + source * row);
    }
  });
  return {gradient_x, from_lanes(sums.sum(0), weights)};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "depthwise_convolution(Tensor x, Tensor weights, int stride, int[] padding) -> Tensor",
         &depthwise_operator);
  define(library,
         "depthwise_convolution_backward(Tensor gradient_y, Tensor x, Tensor weights, int stride, int[] padding, bool "
         "of_x) -> (Tensor, Tensor)",
         &depthwise_backward_operator);
}

}  // namespace

bool takes_depthwise(const at::Tensor& x, const at::Tensor& weights) {
  return device::takes_loops(x) && x.scalar_type() == at::kFloat && weights.scalar_type() == at::kFloat &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && weights.dim() == 4 && weights.size(0) == x.size(1) &&
         weights.size(1) == 1 && weights.size(2) <= kMostTaps && weights.size(3) <= kMostTaps;
}

at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weights, const DepthwiseWindow& window) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("depthwise_convolution", &depthwise_operator);
  return operation.call(x, weights, window.stride, window.padding);
}

std::pair<at::Tensor, at::Tensor> depthwise_convolution_backward(const at::Tensor& gradient_y, const at::Tensor& x,
                                                                 const at::Tensor& weights,
                                                                 const DepthwiseWindow& window, bool of_x) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("depthwise_convolution_backward", &depthwise_backward_operator);
  auto [gradient_x, of_weights] = operation.call(gradient_y, x, weights, window.stride, window.padding, of_x);
  return {of_x ? gradient_x : at::Tensor(), of_weights};
}

}  // namespace osprey::kernels
