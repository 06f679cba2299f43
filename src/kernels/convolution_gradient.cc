#include "osprey/kernels/convolution_gradient.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/place_sums.h"
#include "kernels/cpu/place_tasks.h"
#include "kernels/cpu/product_arithmetic.h"
#include "kernels/cpu/sliding_convolution.h"
#include "kernels/cpu/winograd.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "kernels/without_autocast.h"
#include "osprey/kernels/device.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

using Sides = std::array<int64_t, 2>;  ///< height, width

Sides sides(const at::Tensor& map) { return {map.size(2), map.size(3)}; }

/// How far the taps of a kernel reach, in steps of the window.
Sides reach(const ConvolutionWindow& window) {
  return {(window.kernel[0] - 1) / window.stride, (window.kernel[1] - 1) / window.stride};
}

/// Places of the result; a window that is larger than the padded map has none.
Sides output_sides(const at::Tensor& x, const ConvolutionWindow& window) {
  Sides result;
  for (size_t d = 0; d < 2; ++d)
    result[d] =
        std::max<int64_t>(0, sides(x)[d] + 2 * window.padding[d] - window.kernel[d] + window.stride) / window.stride;
  return result;
}

/// Places of a map, picture after picture and line after line, as rows of channels. Lines and pictures are longer than
/// the map by `margin`, where there are zeros: a shifted window then is the same rows from a later one on.
struct PaddedRows {
  /// values  [B, H, W, C], written from place `first` on
  PaddedRows(const at::Tensor& values, const Sides& extent, const Sides& first, int64_t beyond) {
    const int64_t B = values.size(0), C = values.size(3);
    count = B * extent[0] * extent[1];
    rows = at::zeros({count + beyond, C}, values.options());
    rows.narrow(0, 0, count)
        .view({B, extent[0], extent[1], C})
        .narrow(1, first[0], values.size(1))
        .narrow(2, first[1], values.size(2))
        .copy_(values);
  }
  at::Tensor rows;  ///< [count + beyond, C]
  int64_t count;
};

/// The places of x, [B, H, W, I], that a tap at `offset` sees, as far as they are not padding: every stride-th. `first`
/// becomes the number of the first of them.
at::Tensor phase(const at::Tensor& x, const ConvolutionWindow& window, const Sides& offset, const Sides& extent,
                 Sides& first) {
  at::Tensor result = x;
  for (size_t d = 0; d < 2; ++d) {
    const int64_t before = std::max<int64_t>(window.padding[d] - offset[d], 0);
    first[d] = (before + window.stride - 1) / window.stride;
    const int64_t start = first[d] * window.stride + offset[d] - window.padding[d];
    const auto dimension = static_cast<int64_t>(d) + 1;
    result = result.slice(dimension, std::min(start, x.size(dimension)), x.size(dimension), window.stride);
    result = result.slice(dimension, 0, extent[d] - first[d]);
  }
  return result;
}

/// How the work on a weight gradient is divided: what a task needs at a time lies in the core's own cache, and the more
/// places it sums at a time, the less often it goes through the sums of all taps. (Sizes as measured, see
/// bench/models/convolution_bench.cc.)
struct PanelTasks {
  static constexpr int64_t kRowPanels = 21, kColumnPanels = 8;  ///< of gradient and map in a task, about
  static constexpr int64_t kSeenBytes = 64 << 10;               ///< of a panel of the map at a time

  PanelTasks(int64_t O, int64_t I, const ConvolutionWindow& window, const Sides& output) {
    const int64_t row_panels = device::blocks_for(O, cpu::kPanelRows),
                  column_panels = device::blocks_for(I, cpu::kPanelColumns);
    column_tasks = device::blocks_for(column_panels, kColumnPanels);
    row_tasks = std::max<int64_t>(1, (row_panels + kRowPanels / 2) / kRowPanels);
    const int64_t threads = at::get_num_threads();  // a sum is the same whatever task makes it
    while (row_tasks * column_tasks % threads != 0 && row_panels / row_tasks > 4) ++row_tasks;
    while (row_tasks * column_tasks % threads != 0 && column_panels / column_tasks > 2) ++column_tasks;
    rows = device::blocks_for(row_panels, row_tasks) * cpu::kPanelRows;
    columns = device::blocks_for(column_panels, column_tasks) * cpu::kPanelColumns;
    row_tasks = device::blocks_for(O, rows);  // shares are rounded up, so fewer may do
    column_tasks = device::blocks_for(I, columns);
    wide = output[1] + window.kernel[1] - 1;
    const int64_t seen_lines = kSeenBytes / (wide * cpu::kPanelColumns * static_cast<int64_t>(sizeof(float)));
    lines = std::clamp<int64_t>(seen_lines - window.kernel[0] + 1, 1, output[0]);
    high = output[0] + window.kernel[0] - 1;
  }
  int64_t row_tasks, column_tasks, rows, columns;  ///< channels of gradient and map in a task
  int64_t lines;                                   ///< of the gradient that are taken at once
  int64_t high, wide;                              ///< of the map with its padding
};

/// The gradient for windows that move by one, by tiles of sums that stay in registers: places are brought together as
/// panels of channels once for all taps.
/// gradient  [B, H', W', O]      x  [B, H, W, I]      returns  [taps, O, I]
at::Tensor multiply_in_panels(const at::Tensor& gradient, const at::Tensor& x, const ConvolutionWindow& window) {
  const int64_t B = x.size(0), height = x.size(1), width = x.size(2), I = x.size(3), O = gradient.size(3);
  const Sides output = {gradient.size(1), gradient.size(2)};
  const PanelTasks tasks(O, I, window, output);
  const int64_t taps = window.kernel[0] * window.kernel[1], rows = tasks.rows * tasks.row_tasks,
                columns = tasks.columns * tasks.column_tasks;
  const int64_t a_step = cpu::row_step_for(tasks.rows), b_line = tasks.wide * cpu::kPanelColumns,
                b_step = tasks.high * b_line;
  const at::Tensor result = at::zeros({taps, rows, columns}, x.options());
  float* const sums = result.mutable_data_ptr<float>();
  const auto *g = gradient.const_data_ptr<float>(), *maps = x.const_data_ptr<float>();
  parallel_for(tasks.row_tasks * tasks.column_tasks, [&](int64_t task) {
    const int64_t o = task % tasks.row_tasks * tasks.rows, i = task / tasks.row_tasks * tasks.columns;
    const int64_t own_rows = std::min(tasks.rows, O - o), own_columns = std::min(tasks.columns, I - i);
    std::vector<float> a(static_cast<size_t>(tasks.lines * output[1] * a_step)),
        b(static_cast<size_t>(tasks.columns / cpu::kPanelColumns * b_step));
    for (int64_t picture = 0; picture < B; ++picture) {
      for (int64_t line = 0; line < tasks.high; ++line) {
        const int64_t y = line - window.padding[0];
        if (y < 0 || y >= height) continue;  // zeros, as beside the lines
        cpu::pack_panels(maps + (picture * height + y) * width * I + i, I,
                         std::min(width, tasks.wide - window.padding[1]), own_columns,
                         b.data() + line * b_line + window.padding[1] * cpu::kPanelColumns, cpu::kPanelColumns, b_step);
      }
      for (int64_t first = 0; first < output[0]; first += tasks.lines) {
        const int64_t lines = std::min(tasks.lines, output[0] - first);
        cpu::pack_panels(g + (picture * output[0] + first) * output[1] * O + o, O, lines * output[1], own_rows,
                         a.data(), a_step, cpu::kPanelColumns);
        cpu::add_window_products(
            a.data(), a_step, device::blocks_for(own_rows, cpu::kPanelRows), b.data() + first * b_line, b_line, b_step,
            device::blocks_for(own_columns, cpu::kPanelColumns), {lines, output[1], window.kernel[0], window.kernel[1]},
            sums + o * columns + i, columns, rows * columns);
      }
    }
  });
  return result.narrow(1, 0, O).narrow(2, 0, I);
}

/// The gradient of each tap, [taps, O, I], by a product of whole maps; see multiply_in_panels.
at::Tensor multiply_by_taps(const at::Tensor& gradient, const at::Tensor& input, const ConvolutionWindow& window) {
  const int64_t O = gradient.size(3), I = input.size(3);
  const Sides more = reach(window), extent = {gradient.size(1) + more[0], gradient.size(2) + more[1]};
  const PaddedRows wanted(gradient, extent, {0, 0}, 0);
  const at::Tensor result = at::empty({window.kernel[0] * window.kernel[1], O, I}, input.options());
  for (int64_t a = 0; a < std::min(window.stride, window.kernel[0]); ++a)
    for (int64_t b = 0; b < std::min(window.stride, window.kernel[1]); ++b) {
      Sides first;
      const at::Tensor seen = phase(input, window, {a, b}, extent, first);
      const PaddedRows rows(seen, extent, first, more[0] * extent[1] + more[1]);
      for (int64_t i = a; i < window.kernel[0]; i += window.stride)
        for (int64_t j = b; j < window.kernel[1]; j += window.stride) {
          const int64_t shift = i / window.stride * extent[1] + j / window.stride;
          at::Tensor tap = result[i * window.kernel[1] + j];
          at::mm_out(tap, wanted.rows.t(), rows.rows.narrow(0, shift, wanted.count));
        }
    }
  return result;
}

int64_t places_of(const at::Tensor& map) { return map.size(0) * map.size(2) * map.size(3); }

/// Whether windows move by one over maps on a CPU and keep their size, and maps and gradients are of one type and have
/// many places all together.
bool slides(at::TensorList gradients, at::TensorList maps, const ConvolutionWindow& window) {
  if (!device::takes_loops(maps[0]) || window.stride != 1) return false;
  for (size_t d = 0; d < 2; ++d)
    if (window.kernel[d] % 2 == 0 || window.kernel[d] > cpu::kMostTaps || window.padding[d] != window.kernel[d] / 2)
      return false;
  int64_t places = 0;
  for (size_t i = 0; i < maps.size(); ++i) {
    if (maps[i].scalar_type() != maps[0].scalar_type() || gradients[i].scalar_type() != maps[0].scalar_type())
      return false;
    places += places_of(maps[i]);
  }
  return window.kernel[0] * window.kernel[1] > 1 && places >= cpu::kLeastSlidingPlaces;
}

template <class T>
at::Tensor sum_over_places(const at::Tensor& gradient_y, const at::Tensor& x, cpu::Arithmetic arithmetic) {
  const at::Tensor wanted = channels_last(gradient_y), seen = channels_last(x);
  return cpu::sum_over_places(device::data<const T>(wanted), wanted.size(1), device::data<const T>(seen), seen.size(1),
                              places_of(seen), arithmetic);
}

/// Of one map.
at::Tensor gradient_of_one(const at::Tensor& gradient_y, const at::Tensor& x, const ConvolutionWindow& window) {
  // By sizes, which may be symbols; numel is none.
  if (places_of(x) * x.size(1) == 0 || places_of(gradient_y) * gradient_y.size(1) == 0)
    return at::zeros({gradient_y.size(1), window.kernel[0], window.kernel[1], x.size(1)}, x.options().dtype(at::kFloat))
        .permute({0, 3, 1, 2});
  const bool one_by_one = window.kernel == Sides{1, 1} && window.padding == Sides{0, 0};
  if (one_by_one && window.stride == 1 && device::takes_loops(x) && places_of(x) >= cpu::kLeastPlaces) {
    const cpu::Arithmetic arithmetic = cpu::arithmetic_for(x.scalar_type());
    return cpu::rounds(arithmetic) && gradient_y.scalar_type() == at::kBFloat16
               ? sum_over_places<Bfloat16>(gradient_y, x, arithmetic)
               : sum_over_places<float>(gradient_y.to(at::kFloat), x.to(at::kFloat), cpu::arithmetic_for(at::kFloat));
  }
  const auto places = [](const at::Tensor& map) { return channels_last(map.to(at::kFloat)).permute({0, 2, 3, 1}); };
  const at::Tensor input = places(x), gradient = places(gradient_y);
  const int64_t O = gradient.size(3), I = input.size(3);
  if (one_by_one) {
    const at::Tensor seen = input.slice(1, 0, input.size(1), window.stride).slice(2, 0, input.size(2), window.stride);
    return gradient.reshape({-1, O}).t().mm(seen.reshape({-1, I})).view({O, I, 1, 1});
  }
  const bool in_panels = window.stride == 1 && device::takes_loops(x);
  const at::Tensor result =
      in_panels ? multiply_in_panels(gradient, input, window) : multiply_by_taps(gradient, input, window);
  return result.transpose(0, 1).contiguous().view({O, window.kernel[0], window.kernel[1], I}).permute({0, 3, 1, 2});
}

at::Tensor weight_gradient(at::TensorList gradients, at::TensorList maps, at::IntArrayRef kernel, int64_t stride,
                           at::IntArrayRef padding) {
  TORCH_CHECK(kernel.size() == 2 && padding.size() == 2 && stride > 0, "a window has two sides and a stride > 0");
  TORCH_CHECK(std::min(kernel[0], kernel[1]) >= 1 && std::min(padding[0], padding[1]) >= 0,
              "expected a kernel of 1 x 1 or more and no negative padding, got ", kernel, " and ", padding);
  TORCH_CHECK(!maps.empty() && gradients.size() == maps.size(), "expected as many gradients as maps, got ",
              gradients.size(), " and ", maps.size());
  const ConvolutionWindow window{{kernel[0], kernel[1]}, stride, {padding[0], padding[1]}};
  for (size_t i = 0; i < maps.size(); ++i) {
    const at::Tensor &x = maps[i], &gradient_y = gradients[i];
    TORCH_CHECK(x.dim() == 4 && gradient_y.dim() == 4 && x.size(0) == gradient_y.size(0) &&
                    sides(gradient_y) == output_sides(x, window) && x.size(1) == maps[0].size(1) &&
                    gradient_y.size(1) == gradients[0].size(1),
                "a convolution of ", x.sizes(), " has no gradient of ", gradient_y.sizes());
    TORCH_CHECK(is_element(x.scalar_type()) && is_element(gradient_y.scalar_type()),
                "expected maps of float32 or half the bits, got ", gradient_y.toString(), " and ", x.toString());
  }
  const WithoutAutocast scope;
  if (slides(gradients, maps, window)) {
    constexpr int64_t kLeastChannels = 128;  // of both together, for Winograd's tiles
    const int64_t O = gradients[0].size(1), I = maps[0].size(1);
    const bool by_amx = cpu::slides_by_amx(maps[0].scalar_type(), O, I),
               in_tiles = window.kernel == Sides{3, 3} && O + I >= kLeastChannels && cpu::fits_winograd(maps, O, I);
    if (by_amx || in_tiles) {
      std::vector<at::Tensor> wanted, seen;
      for (const at::Tensor& gradient : gradients) wanted.push_back(channels_last(gradient));
      for (const at::Tensor& map : maps) seen.push_back(channels_last(map));
      const at::Tensor result = by_amx ? cpu::sliding_weight_gradient(wanted, seen, window.kernel[0], window.kernel[1])
                                       : cpu::weight_gradient_in_tiles(wanted, seen);
      return result.permute({0, 3, 1, 2});
    }
  }
  const at::Tensor result = gradient_of_one(gradients[0], maps[0], window);
  for (size_t i = 1; i < maps.size(); ++i) result.add_(gradient_of_one(gradients[i], maps[i], window));
  return result;
}

at::Tensor bias_gradient(at::TensorList gradients) {
  TORCH_CHECK(!gradients.empty(), "expected gradients, got none");
  for (const at::Tensor& gradient : gradients)
    TORCH_CHECK(gradient.dim() == 4 && is_element(gradient.scalar_type()) && gradient.size(1) == gradients[0].size(1),
                "expected gradients [B, O, H, W] of float32 or half the bits, got ", gradient.toString(), " ",
                gradient.sizes());
  if (gradients[0].is_meta()) return at::empty({gradients[0].size(1)}, gradients[0].options().dtype(at::kFloat));
  at::Tensor result = place_sums(gradients[0]);
  for (const at::Tensor& gradient : gradients.slice(1)) result.add_(place_sums(gradient));
  return result;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "convolution_weight_gradient(Tensor[] gradients, Tensor[] maps, int[] kernel, int stride, int[] padding) -> "
         "Tensor",
         &weight_gradient);
  define(library, "convolution_bias_gradient(Tensor[] gradients) -> Tensor", &bias_gradient);
}

}  // namespace

bool multiplies_weight_gradient(const at::Tensor& x, const at::Tensor& weights, const ConvolutionWindow& window) {
  if (!x.is_cpu() || !is_element(x.scalar_type()) || weights.scalar_type() != at::kFloat ||
      !x.is_contiguous(at::MemoryFormat::ChannelsLast) || x.numel() == 0)
    return false;
  const bool has_taps = window.kernel[0] * window.kernel[1] > 1;
  if (has_taps && window.stride == 1) return weights.size(0) >= 8 && weights.size(1) >= cpu::kPanelColumns;
  if (!has_taps && window.stride == 1 && window.padding == Sides{0, 0}) return true;
  const int64_t few_channels = has_taps ? 64 : 128;
  if (weights.size(0) < few_channels || weights.size(1) < few_channels) return false;
  constexpr double kMuchPadding = 1.25;
  const Sides output = output_sides(x, window), more = reach(window);
  return static_cast<double>((output[0] + more[0]) * (output[1] + more[1])) <=
         kMuchPadding * static_cast<double>(output[0] * output[1]);
}

at::Tensor convolution_weight_gradient(at::TensorList gradients, at::TensorList maps, const ConvolutionWindow& window) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("convolution_weight_gradient", &weight_gradient);
  return operation.call(gradients, maps, window.kernel, window.stride, window.padding);
}

at::Tensor convolution_bias_gradient(at::TensorList gradients) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("convolution_bias_gradient", &bias_gradient);
  return operation.call(gradients);
}

}  // namespace osprey::kernels
