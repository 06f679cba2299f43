#include "kernels/cpu/depthwise_lines.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/cpu/loops/depthwise_rows.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int64_t kLinesOfATask = 16;  // about

/// [C, 1, height, width] -> [C / lanes, height * width, lanes], the taps as they are or the last one first.
at::Tensor to_lanes(const at::Tensor& given, bool turned) {
  const at::Tensor weights = given.contiguous();
  const int64_t depth = weights.size(0), taps = weights.size(2) * weights.size(3),
                groups = (depth + kLanes - 1) / kLanes;
  const at::Tensor result = at::empty({groups, taps, kLanes}, weights.options());
  const auto* const from = weights.const_data_ptr<float>();
  auto* to = result.mutable_data_ptr<float>();
  for (int64_t first = 0; first < groups * kLanes; first += kLanes)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = first; c < first + kLanes; ++c, ++to)
        *to = c < depth ? from[c * taps + (turned ? taps - 1 - tap : tap)] : 0;
  return result;
}

}  // namespace

/// What each place of the result sees of the map.
std::vector<DepthwiseLines::Taps> DepthwiseLines::forward_taps(const Side& side) {
  std::vector<Taps> result(static_cast<size_t>(side.to));
  for (int64_t target = 0; target < side.to; ++target)
    for (int64_t tap = 0; tap < side.kernel; ++tap)
      if (side.sees(target, tap)) result[target].push_back({tap, target * side.stride - side.before + tap});
  return result;
}

/// What each place of the map has been seen by, the taps counted from the last one: in the order of what they see these
/// ascend, too.
std::vector<DepthwiseLines::Taps> DepthwiseLines::backward_taps(const Side& side) {
  std::vector<Taps> result(static_cast<size_t>(side.from));
  for (int64_t target = 0; target < side.to; ++target)
    for (int64_t tap = 0; tap < side.kernel; ++tap)
      if (side.sees(target, tap))
        result[target * side.stride - side.before + tap].push_back({side.kernel - 1 - tap, target});
  return result;
}

DepthwiseLines::Runs::Runs(const std::vector<Taps>& taps, int64_t places, int64_t sources)
    : step(places), source_step(sources) {
  const auto count = static_cast<int64_t>(taps.size());
  for (int64_t phase = 0; phase < std::min(step, count); ++phase) {
    runs.push_back({phase, 1, taps[phase]});
    for (int64_t place = phase + step; place < count; place += step) {
      Taps continued = runs.back().taps;
      for (Tap& tap : continued) tap.source += runs.back().count * source_step;
      if (continued == taps[place]) {
        ++runs.back().count;
      } else {
        runs.push_back({place, 1, taps[place]});
      }
    }
  }
}

/// What a run of pixels sees through the taps of some lines, and where the values of those taps are.
struct DepthwiseLines::Seen {
  Seen(const DepthwiseLines& all, const LineOf& map, const Taps& taps, const Runs& pixels)
      : kernel_width(all.pixels_.kernel), taps_of_channels(all.lines_.kernel * kernel_width), line_taps(taps) {
    seen = {lines, static_cast<int64_t>(taps.size()), 0, 0, pixels.source_step, all.depth_};
    for (size_t i = 0; i < taps.size(); ++i) lines[i] = map(taps[i].source);
  }

  /// The same for another run.
  const SeenPixels& by(const Run& run) {
    seen.columns = static_cast<int64_t>(run.taps.size());
    seen.first = run.taps.empty() ? 0 : run.taps.front().source * seen.depth;
    return seen;
  }

  template <class T>
  OfTaps<T> values(T* all, const Run& run) const {
    if (line_taps.empty() || run.taps.empty()) return {all, 0, 0, 0};
    const auto step = [](const Taps& taps) { return taps.size() > 1 ? taps[1].tap - taps[0].tap : 0; };
    return {all + (line_taps.front().tap * kernel_width + run.taps.front().tap) * kLanes,
            step(line_taps) * kernel_width * kLanes, step(run.taps) * kLanes, taps_of_channels * kLanes};
  }

  int64_t kernel_width, taps_of_channels;
  const Taps& line_taps;
  const float* lines[kMostTaps];
  SeenPixels seen;
};

DepthwiseLines::DepthwiseLines(const Sides& sides, const at::Tensor& weights)
    : lines_(sides.lines),
      pixels_(sides.pixels),
      depth_(weights.size(0)),
      sizes_(weights.sizes().vec()),
      weights_(to_lanes(weights, false)),
      turned_(to_lanes(weights, true)),
      forward_(forward_taps(lines_)),
      backward_(backward_taps(lines_)),
      forward_pixels_(forward_taps(pixels_), 1, pixels_.stride),
      backward_pixels_(backward_taps(pixels_), pixels_.stride, 1) {}

void DepthwiseLines::sum_line(const LineOf& map, const Taps& taps, const Runs& pixels, const float* weights,
                              float* result) const {
  Seen seen(*this, map, taps, pixels);
  for (const Run& run : pixels.runs)
    weighted_sums(seen.by(run), seen.values(weights, run), run.count, result + run.first * depth_,
                  pixels.step * depth_);
}

void DepthwiseLines::forward(const LineOf& map, int64_t y, float* result) const {
  sum_line(map, forward_[y], forward_pixels_, weights_.const_data_ptr<float>(), result);
}

void DepthwiseLines::backward(const LineOf& gradient, int64_t source, float* result) const {
  sum_line(gradient, backward_[source], backward_pixels_, turned_.const_data_ptr<float>(), result);
}

std::pair<int64_t, int64_t> DepthwiseLines::beside(int64_t y) const {
  const int64_t last = y + 1 == lines_.to ? lines_.from : std::min((y + 1) * lines_.stride, lines_.from);
  return {std::min(y * lines_.stride, last), last};
}

void DepthwiseLines::add_weight_gradient(const LineOf& map, const float* gradient, int64_t y, float* sums) const {
  Seen seen(*this, map, forward_[y], forward_pixels_);
  for (const Run& run : forward_pixels_.runs)
    add_products(seen.by(run), gradient + run.first * depth_, run.count, seen.values(sums, run));
}

at::Tensor DepthwiseLines::weight_gradient(const at::Tensor& sums) const {
  const at::Tensor total = sums.sum(0), result = at::empty(sizes_, sums.options());
  const int64_t taps = weights_.size(1);
  const auto* const from = total.const_data_ptr<float>();
  auto* const to = result.mutable_data_ptr<float>();
  for (int64_t c = 0; c < depth_; ++c)
    for (int64_t tap = 0; tap < taps; ++tap) to[c * taps + tap] = from[(c / kLanes * taps + tap) * kLanes + c % kLanes];
  return result;
}

int64_t line_tasks(int64_t lines) { return (lines + kLinesOfATask - 1) / kLinesOfATask; }

void for_lines(int64_t pictures, int64_t lines,
               c10::function_ref<void(int64_t task, int64_t picture, int64_t begin, int64_t end)> work) {
  const int64_t tasks = line_tasks(lines);
  const auto run = [&](int64_t i) {
    const int64_t of_picture = i % tasks;
    work(i, i / tasks, of_picture * lines / tasks, (of_picture + 1) * lines / tasks);
  };
  parallel_for(pictures * tasks, run, Order::kLastFirst);
}

}  // namespace osprey::kernels::cpu
