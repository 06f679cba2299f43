#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/cpu/loops/floats.h"
#include "kernels/cpu/normalized_steps.h"
#include "kernels/cpu/place_products.h"
#include "kernels/cpu/window_rows.h"
#include "kernels/maps.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

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

/// The gradients of the weights, and `moments`, of some pictures; that of x is written into `of_x`, unless undefined.
ConvolvedGradients backward_of_pictures(const ThroughStatistics& gradient, const at::Tensor& x,
                                        const std::optional<Affine>& affine, const at::Tensor& weights,
                                        const Sides& sides, const at::Tensor& of_x) {
  const Factors factors(x, affine, sides);
  const int64_t columns = weights.size(0), length = factors.length(), depth = x.size(1), places = factors.places();
  const int64_t groups = PlaceSums::groups_for(columns, length, places);
  const PlaceTasks tasks(places, std::max(length, columns), groups > 0 ? groups : PlaceTasks::kShares);
  ConvolvedGradients result;
  std::optional<PlaceProducts> products;
  at::Tensor row_gradients;
  if (of_x.defined()) {
    products.emplace(to_matrix(weights), at::Tensor(), /*transposed=*/true);
    row_gradients = factors.one_by_one() ? of_x : at::empty({places, length}, x.options());
  }
  const auto *const in = x.const_data_ptr<float>(), *const wanted = gradient.gradient.const_data_ptr<float>(),
                    *const y = gradient.y.const_data_ptr<float>();
  float* const out = of_x.defined() ? of_x.mutable_data_ptr<float>() : nullptr;
  float* const out_rows = of_x.defined() ? row_gradients.mutable_data_ptr<float>() : nullptr;
  TaskSums sums(factors.one_by_one() ? tasks.count() : x.size(0) * line_tasks(sides.lines.from), depth);
  // The total gradient of some places, then what it makes of the gradients of their rows.
  const auto back = [&](int64_t task, int64_t begin, int64_t count, float* totals) {
    make_total(gradient, begin * columns, count, totals);
    if (products)
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
  if (products && !factors.one_by_one())
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
  // Rows of windows, and their gradients, are larger than the map: not those of all pictures at a time.
  constexpr int64_t kBytes = 64 << 20;
  const int64_t B = x.size(0), numbers = sides.lines.to * sides.pixels.to * weights[0].numel(),
                fit = std::max<int64_t>(kBytes / (numbers * static_cast<int64_t>(sizeof(float))), 1),
                parts = sides.are_those_of_1x1() ? 1 : (B + fit - 1) / fit;
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * B / parts, count = (part + 1) * B / parts - first;
    const auto some = [&](const at::Tensor& maps) { return maps.narrow(0, first, count); };
    const at::Tensor of_y = some(gradient.gradient), y = some(gradient.y);
    const ConvolvedGradients found =
        backward_of_pictures({of_y, y, gradient.mean, gradient.slope, gradient.offset}, some(x), affine, weights, sides,
                             of_x ? some(result.x) : at::Tensor());
    result.weights = part == 0 ? found.weights : result.weights.add_(found.weights);
    if (affine) result.moments = part == 0 ? found.moments : result.moments.add_(found.moments);
  }
  return result;
}

}  // namespace osprey::kernels::cpu
