#include "kernels/cpu/normalized_convolution.h"

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/cpu/place_products.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/device/batch_norm.h"
#include "kernels/maps.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// Memory that is written before it is read.
std::unique_ptr<float[]> scratch(int64_t count) {
  return std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count));
}

/// The moments of rows that come one after the other, of one task.
class TaskMoments {
 public:
  TaskMoments(const float* first, int64_t depth, TaskSums& sums, int64_t task)
      : first_(first),
        depth_(depth),
        scratch_(scratch(2 * depth)),
        sum_(sums.of(task)),
        square_(sums.others_of(task)) {}
  void add(const float* rows, int64_t count) {
    add_moments(rows, count, depth_, first_, scratch_.get(), sum_, square_);
    count_ += count;
  }
  void finish() {
    const device::Moments<float> element{first_, depth_};
    for (int64_t c = 0; c < depth_; ++c) element.finish(first_[c], count_, sum_[c], square_[c]);
  }

 private:
  const float* first_;  ///< the first row: what is summed are differences from it
  int64_t depth_, count_ = 0;
  std::unique_ptr<float[]> scratch_;
  double *sum_, *square_;
};

/// Some successive lines that are made when they are first asked for, the latest few of them.
class LatestLines {
 public:
  LatestLines(int64_t lines, int64_t line_size)
      : line_size_(line_size), memory_(scratch(lines * line_size)), held_(static_cast<size_t>(lines), -1) {}

  template <class Make>  // make(memory of the line)
  const float* line(int64_t number, Make make) {
    const auto slot = static_cast<size_t>(number) % held_.size();
    float* const memory = memory_.get() + static_cast<int64_t>(slot) * line_size_;
    if (held_[slot] != number) make(memory);
    held_[slot] = number;
    return memory;
  }

 private:
  int64_t line_size_;
  std::unique_ptr<float[]> memory_;
  std::vector<int64_t> held_;
};

/// Rows of the total gradient from element `first` on.
void make_total(const ThroughStatistics& from, int64_t first, int64_t rows, float* total) {
  add_through_statistics(from.gradient.const_data_ptr<float>() + first, from.y.const_data_ptr<float>() + first, rows,
                         from.y.size(1), from.mean.const_data_ptr<float>(), from.slope.const_data_ptr<float>(),
                         from.offset.const_data_ptr<float>(), total);
}

}  // namespace

Convolved normalized_pointwise(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights) {
  const PlaceProducts products(weights, {}, /*transposed=*/false);
  const int64_t depth = products.depth(), columns = products.columns(), places = x.numel() / depth;
  const at::Tensor y = empty_map({x.size(0), columns, x.size(2), x.size(3)}, x);
  const auto* const in = x.const_data_ptr<float>();
  auto* const out = y.mutable_data_ptr<float>();
  TaskSums sums(place_tasks(places), columns);
  for_places(places, [&](int64_t task, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const float* rows = in + begin * depth;
    std::unique_ptr<float[]> normalized;
    if (affine) {
      normalized = scratch(count * depth);
      normalize_rows(rows, count, depth, affine->channels, normalized.get());
      rows = normalized.get();
    }
    float* const result = out + begin * columns;
    products.multiply(rows, count, {in + end * depth, count * depth}, result);
    TaskMoments moments(result, columns, sums, task);
    moments.add(result, count);
    moments.finish();
  });
  return {y, sums.total()};
}

ConvolvedGradients normalized_pointwise_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                                 const std::optional<Affine>& affine, const at::Tensor& weights,
                                                 bool of_x) {
  const PlaceProducts products(weights, {}, /*transposed=*/true);
  const int64_t columns = products.depth(), depth = products.columns(), places = x.numel() / depth,
                tasks = place_tasks(places), most = most_places(places);
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  const auto *const in = x.const_data_ptr<float>(), *const wanted = gradient.gradient.const_data_ptr<float>(),
                    *const y = gradient.y.const_data_ptr<float>();
  float* const out = of_x ? result.x.mutable_data_ptr<float>() : nullptr;
  TaskSums sums(tasks, depth);
  // The total gradient of some places, then what it makes of the gradient of x.
  const auto back = [&](int64_t task, int64_t begin, int64_t count, float* totals) {
    make_total(gradient, begin * columns, count, totals);
    if (of_x)
      products.multiply(totals, count, {wanted + (begin + count) * columns, count * columns}, out + begin * depth);
    if (affine)
      take_back_rows(out + begin * depth, in + begin * depth, count, depth, affine->channels, scratch(2 * depth).get(),
                     sums.of(task), sums.others_of(task));
  };
  if (const int64_t groups = std::min(PlaceSums::groups(columns, depth), tasks); groups > 0) {
    PlaceSums weight_sums(columns, depth);
    parallel_for(groups, [&](int64_t group) {
      const auto totals = scratch(most * columns), normalized = scratch(most * depth),
                 panels = scratch(weight_sums.panel_size(most));
      for (int64_t task = group * tasks / groups; task < (group + 1) * tasks / groups; ++task) {
        const auto [begin, end] = places_of(task, places);
        const int64_t count = end - begin;
        back(task, begin, count, totals.get());
        const float* values = in + begin * depth;
        if (affine) {
          normalize_rows(values, count, depth, affine->channels, normalized.get());
          values = normalized.get();
        }
        weight_sums.add(group, task == group * tasks / groups, totals.get(), values, count, panels.get(),
                        {y + end * columns, count * columns}, {in + end * depth, count * depth});
      }
    });
    result.weights = weight_sums.total(groups);
  } else {
    const at::Tensor total = empty_map(gradient.y.sizes(), x), values = affine ? empty_map(x.sizes(), x) : x;
    auto* const totals = total.mutable_data_ptr<float>();
    float* const normalized = affine ? values.mutable_data_ptr<float>() : nullptr;
    for_places(places, [&](int64_t task, int64_t begin, int64_t end) {
      back(task, begin, end - begin, totals + begin * columns);
      if (affine) normalize_rows(in + begin * depth, end - begin, depth, affine->channels, normalized + begin * depth);
    });
    result.weights = convolution_weight_gradient(total, values, {});
  }
  if (affine) result.moments = sums.total();
  return result;
}

Convolved normalized_depthwise(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                               const Sides& sides) {
  const DepthwiseLines convolution(sides, weights);
  const int64_t depth = x.size(1);
  const at::Tensor y = empty_map({x.size(0), depth, sides.lines.to, sides.pixels.to}, x);
  const auto* const in = x.const_data_ptr<float>();
  auto* const out = y.mutable_data_ptr<float>();
  TaskSums sums(x.size(0) * line_tasks(sides.lines.to), depth);
  for_lines(x.size(0), sides.lines.to, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const Picture picture(x, number), result(y, number);
    LatestLines latest(convolution.window(), picture.line_size);
    const auto line = [&](int64_t source) {
      const float* const here = in + picture.at(source);
      if (!affine) return here;
      return latest.line(source,
                         [&](float* to) { normalize_rows(here, sides.pixels.from, depth, affine->channels, to); });
    };
    TaskMoments moments(out + result.at(begin), depth, sums, task);
    for (int64_t target = begin; target < end; ++target) {
      convolution.forward(line, target, out + result.at(target));
      moments.add(out + result.at(target), sides.pixels.to);
    }
    moments.finish();
  });
  return {y, sums.total()};
}

ConvolvedGradients normalized_depthwise_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                                 const std::optional<Affine>& affine, const at::Tensor& weights,
                                                 const Sides& sides, bool of_x) {
  const DepthwiseLines convolution(sides, weights);
  const int64_t depth = x.size(1), tasks = x.size(0) * line_tasks(sides.lines.to);
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  const auto* const in = x.const_data_ptr<float>();
  float* const out = of_x ? result.x.mutable_data_ptr<float>() : nullptr;
  const at::Tensor weight_sums = at::zeros({tasks, convolution.weight_numbers()}, x.options());
  auto* const of_weights = weight_sums.mutable_data_ptr<float>();
  TaskSums sums(tasks, depth);
  for_lines(x.size(0), sides.lines.to, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const Picture picture(x, number), wanted(gradient.y, number);
    LatestLines latest(convolution.window(), picture.line_size), totals(convolution.window(), wanted.line_size);
    const auto space = scratch(2 * depth);
    const auto line = [&](int64_t source) {
      const float* const here = in + picture.at(source);
      if (!affine) return here;
      return latest.line(source,
                         [&](float* to) { normalize_rows(here, sides.pixels.from, depth, affine->channels, to); });
    };
    const auto total = [&](int64_t target) {
      return totals.line(target, [&](float* to) { make_total(gradient, wanted.at(target), sides.pixels.to, to); });
    };
    for (int64_t target = begin; target < end; ++target) {
      convolution.add_weight_gradient(line, total(target), target, of_weights + task * convolution.weight_numbers());
      if (!of_x) continue;
      const auto [first, last] = convolution.beside(target);
      for (int64_t source = first; source < last; ++source) {
        const int64_t at = picture.at(source);
        convolution.backward(total, source, out + at);
        if (affine)
          take_back_rows(out + at, in + at, sides.pixels.from, depth, affine->channels, space.get(), sums.of(task),
                         sums.others_of(task));
      }
    }
  });
  if (affine) result.moments = sums.total();
  result.weights = convolution.weight_gradient(weight_sums);
  return result;
}

}  // namespace osprey::kernels::cpu
