#include "kernels/cpu/normalized_convolution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/cpu/loops/floats.h"
#include "kernels/cpu/place_products.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/cpu/window_rows.h"
#include "kernels/device/batch_norm.h"
#include "kernels/maps.h"
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
      : first_(first), depth_(depth), scratch_(scratch(2 * depth)), sums_(sums.begin(task)) {}
  void add(const float* rows, int64_t count) {
    add_moments(rows, count, depth_, first_, scratch_.get(), sums_.first, sums_.second);
    count_ += count;
  }
  void finish() {
    const device::Moments<float> element{first_, depth_};
    for (int64_t c = 0; c < depth_; ++c) element.finish(first_[c], count_, sums_.first[c], sums_.second[c]);
  }

 private:
  const float* first_;  ///< the first row: what is summed are differences from it
  int64_t depth_, count_ = 0;
  std::unique_ptr<float[]> scratch_;
  TaskSums::Sums sums_;  ///< of differences, of their squares
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

/// What a convolution of all channels multiplies with its weights at each place of the result: what its window sees,
/// put through the batch norm.
class Factors {
 public:
  Factors(const at::Tensor& x, const std::optional<Affine>& affine, const Sides& sides)
      : map_(x.const_data_ptr<float>()),
        depth_(x.size(1)),
        channels_(affine ? &affine->channels : nullptr),
        windows_(x, sides),
        one_by_one_(sides.are_those_of_1x1()) {}

  int64_t places() const { return windows_.places(); }
  int64_t length() const { return windows_.length(); }
  bool one_by_one() const { return one_by_one_; }
  bool in_place() const { return one_by_one_ && channels_ == nullptr; }  ///< rows are what the map has

  /// The rows of some places, [end - begin, length()]: in `space`, unless in place.
  const float* rows(int64_t begin, int64_t end, float* space) const {
    if (in_place()) return map_ + begin * depth_;
    const auto copy = [&](const float* from, int64_t from_step, int64_t lines, int64_t pixels, float* to,
                          int64_t to_step) {
      if (channels_ == nullptr) return copy_floats(from, from_step, lines, pixels * depth_, to, to_step);
      for (int64_t line = 0; line < lines; ++line)
        normalize_rows(from + line * from_step, pixels, depth_, *channels_, to + line * to_step);
    };
    if (one_by_one_) {
      normalize_rows(map_ + begin * depth_, end - begin, depth_, *channels_, space);
    } else {
      windows_.gather(map_, begin, end, copy, space);
    }
    return space;
  }

  /// What `rows` reads for some places after these.
  Ahead after(int64_t end, int64_t count) const {
    return one_by_one_ ? Ahead{map_ + end * depth_, count * depth_} : Ahead{};
  }

  /// What gradients of all rows are for one line of a picture of the map.
  void sum_line(const float* rows, int64_t picture, int64_t line, float* result) const {
    windows_.sum_line(rows, picture, line, result);
  }

 private:
  const float* map_;
  int64_t depth_;
  const ChannelAffine* channels_;  ///< null: nothing to be normalised
  WindowRows windows_;
  bool one_by_one_;
};

/// [O, C, height, width] -> [O, height * width * C], as the rows of factors are
at::Tensor to_matrix(const at::Tensor& weights) { return weights.permute({0, 2, 3, 1}).flatten(1); }

}  // namespace

Convolved normalized_dense(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                           const Sides& sides) {
  const PlaceProducts products(to_matrix(weights), {}, /*transposed=*/false);
  const Factors factors(x, affine, sides);
  const int64_t columns = products.columns();
  const PlaceTasks tasks(factors.places(), std::max(factors.length(), columns));
  const at::Tensor y = empty_map({x.size(0), columns, sides.lines.to, sides.pixels.to}, x);
  auto* const out = y.mutable_data_ptr<float>();
  TaskSums sums(tasks.count(), columns);
  tasks.for_each([&](int64_t task, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const auto space = scratch(count * factors.length());
    float* const result = out + begin * columns;
    products.multiply(factors.rows(begin, end, space.get()), count, factors.after(end, count), result);
    TaskMoments moments(result, columns, sums, task);
    moments.add(result, count);
    moments.finish();
  });
  return {y, sums.total()};
}

ConvolvedGradients normalized_dense_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                             const std::optional<Affine>& affine, const at::Tensor& weights,
                                             const Sides& sides, bool of_x) {
  const Factors factors(x, affine, sides);
  const int64_t columns = weights.size(0), length = factors.length(), depth = x.size(1), places = factors.places();
  const int64_t groups = PlaceSums::groups_for(columns, length, places);
  const PlaceTasks tasks(places, std::max(length, columns), groups > 0 ? groups : PlaceTasks::kShares);
  ConvolvedGradients result;
  std::optional<PlaceProducts> products;
  at::Tensor row_gradients;
  if (of_x) {
    products.emplace(to_matrix(weights), at::Tensor(), /*transposed=*/true);
    result.x = empty_map(x.sizes(), x);
    row_gradients = factors.one_by_one() ? result.x : at::empty({places, length}, x.options());
  }
  const auto *const in = x.const_data_ptr<float>(), *const wanted = gradient.gradient.const_data_ptr<float>(),
                    *const y = gradient.y.const_data_ptr<float>();
  float* const out = of_x ? result.x.mutable_data_ptr<float>() : nullptr;
  float* const out_rows = of_x ? row_gradients.mutable_data_ptr<float>() : nullptr;
  TaskSums sums(factors.one_by_one() ? tasks.count() : x.size(0) * line_tasks(sides.lines.from), depth);
  // The total gradient of some places, then what it makes of the gradients of their rows.
  const auto back = [&](int64_t task, int64_t begin, int64_t count, float* totals) {
    make_total(gradient, begin * columns, count, totals);
    if (of_x)
      products->multiply(totals, count, {wanted + (begin + count) * columns, count * columns},
                         out_rows + begin * length);
    if (!affine || !factors.one_by_one()) return;
    const auto [sum, product] = sums.begin(task);
    take_back_rows(out + begin * depth, in + begin * depth, count, depth, affine->channels, scratch(2 * depth).get(),
                   sum, product);
  };
  if (groups > 0) {
    PlaceSums weight_sums(columns, length, groups);
    parallel_for(groups, [&](int64_t group) {
      const auto totals = scratch(tasks.most() * columns), space = scratch(tasks.most() * length),
                 panels = scratch(weight_sums.panel_size(tasks.most()));
      const int64_t first = group * tasks.count() / groups;
      for (int64_t task = first; task < (group + 1) * tasks.count() / groups; ++task) {
        const auto [begin, end] = tasks.places(task);
        const int64_t count = end - begin;
        back(task, begin, count, totals.get());
        weight_sums.add(group, task == first, totals.get(), factors.rows(begin, end, space.get()), count, panels.get(),
                        {y + end * columns, count * columns}, factors.after(end, count));
      }
    });
    result.weights = weight_sums.total();
  } else {
    const at::Tensor total = at::empty({places, columns}, x.options()),
                     rows = factors.in_place() ? x.permute({0, 2, 3, 1}).view({places, length})
                                               : at::empty({places, length}, x.options());
    auto* const totals = total.mutable_data_ptr<float>();
    float* const space = factors.in_place() ? nullptr : rows.mutable_data_ptr<float>();
    tasks.for_each([&](int64_t task, int64_t begin, int64_t end) {
      back(task, begin, end - begin, totals + begin * columns);
      if (space != nullptr) factors.rows(begin, end, space + begin * length);
    });
    result.weights = total.t().mm(rows);
  }
  result.weights = result.weights.view({columns, sides.lines.kernel, sides.pixels.kernel, depth}).permute({0, 3, 1, 2});
  if (of_x && !factors.one_by_one())
    for_lines(x.size(0), sides.lines.from, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
      const Picture picture(x, number);
      const auto space = scratch(2 * depth);
      const auto [sum, product] = sums.begin(task);
      for (int64_t line = begin; line < end; ++line) {
        const int64_t at = picture.at(line);
        factors.sum_line(out_rows, number, line, out + at);
        if (affine)
          take_back_rows(out + at, in + at, sides.pixels.from, depth, affine->channels, space.get(), sum, product);
      }
    });
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
    const auto own = sums.begin(task);
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
          take_back_rows(out + at, in + at, sides.pixels.from, depth, affine->channels, space.get(), own.first,
                         own.second);
      }
    }
  });
  if (affine) result.moments = sums.total();
  result.weights = convolution.weight_gradient(weight_sums);
  return result;
}

}  // namespace osprey::kernels::cpu
