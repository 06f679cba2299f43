#include "kernels/cpu/depthwise_lines.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "osprey/base/cpu.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// Bounds of a group of channels: its lines are in a near cache, and of each pixel enough is read at once.
struct GroupSize {
  int64_t floats_of_line, least_channels;
};
/// Registers of 16 floats need the nearest cache to be busy. Those of 8, and halves, are content with the next one, and
/// maps then come faster from memory.
GroupSize group_size() { return {4096, (computes_with_512_bits() ? 2 : 8) * kLanes}; }

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

/// What a place sees along one side: so many successive sources, through taps that lie `step` apart.
struct Taps {
  int64_t source, tap, count, step;

  /// Without those that fall into padding.
  Taps within(int64_t sources) const {
    const int64_t first = std::max<int64_t>(0, -source), last = std::min(count, sources - source);
    return {source + first, tap + first * step, std::max<int64_t>(0, last - first), step};
  }
};

/// What a place of the result sees of the map.
Taps forward_taps(const Side& side, int64_t target) { return {target * side.stride - side.before, 0, side.kernel, 1}; }

/// What a place of the map has been seen by, the taps counted from the last one: so their sources ascend, too.
Taps backward_taps(const Side& side, int64_t source) {
  const int64_t from_first = source + side.before, last = side.kernel - 1;
  const int64_t tap = ((last - from_first) % side.stride + side.stride) % side.stride;
  return {(from_first - last + tap) / side.stride, tap, tap <= last ? (last - tap) / side.stride + 1 : 0, side.stride};
}

/// Pixels of the map that are seen alike, `stride` apart, beginning with `phase`.
int64_t pixels_of_phase(const Side& side, int64_t phase) { return (side.from - phase + side.stride - 1) / side.stride; }

/// What pixels see through the taps of some lines.
/// lines   place for those
/// stride  pixels between what one of them sees and what the next one does
SeenPixels seen_by(const LineOf& map, const Taps& of_lines, const Taps& of_pixels, int64_t stride, int64_t depth,
                   const float** lines) {
  for (int64_t i = 0; i < of_lines.count; ++i) lines[i] = map(of_lines.source + i);
  return {lines, of_lines.count, of_pixels.count, of_pixels.source * depth, stride, depth};
}

/// all  [C / kLanes, height * width, kLanes]
template <class T>
OfTaps<T> of_taps(T* all, const ChannelGroup& group, const Taps& of_lines, const Taps& of_pixels, int64_t height,
                  int64_t width) {
  const int64_t of_lanes = height * width * kLanes;
  return {all + group.first / kLanes * of_lanes + (of_lines.tap * width + of_pixels.tap) * kLanes,
          of_lines.step * width * kLanes, of_pixels.step * kLanes, of_lanes};
}

}  // namespace

bool fetches_near(int64_t bytes) {
  constexpr int64_t kMost = 12 << 10;
  return computes_with_512_bits() || bytes > kMost;
}

DepthwiseLines::DepthwiseLines(const Sides& sides, const at::Tensor& weights, Direction direction)
    : direction_(direction),
      lines_(sides.lines),
      pixels_(sides.pixels),
      depth_(weights.size(0)),
      sizes_(weights.sizes().vec()),
      weights_(to_lanes(weights, /*turned=*/direction == Direction::kBackward)) {}

std::vector<ChannelGroup> DepthwiseLines::groups() const {
  const GroupSize size = group_size();
  int64_t wanted = size.least_channels;
  while (2 * wanted * pixels_.from <= size.floats_of_line) wanted *= 2;
  std::vector<ChannelGroup> result;
  for (int64_t first = 0; first < depth_; first += wanted) result.push_back({first, std::min(wanted, depth_ - first)});
  return result;
}

template <class Sum>
void DepthwiseLines::with_seen(const ChannelGroup& group, const LineOf& map, int64_t y, const Sum& sum) const {
  TORCH_INTERNAL_ASSERT(direction_ == Direction::kForward);
  const Taps of_lines = forward_taps(lines_, y).within(lines_.from), of_pixels = forward_taps(pixels_, 0);
  const float* lines[kMostTaps];
  sum(seen_by(map, of_lines, of_pixels, pixels_.stride, group.depth, lines),
      of_taps(weights_.const_data_ptr<float>(), group, of_lines, of_pixels, lines_.kernel, pixels_.kernel));
}

void DepthwiseLines::forward(const ChannelGroup& group, const LineOf& map, int64_t y, float* result) const {
  with_seen(group, map, y, [&](const SeenPixels& seen, const OfTaps<const float>& weights) {
    weighted_sums(seen, weights, pixels_.to, result, group.depth);
  });
}

template <class T>
void DepthwiseLines::forward(const ChannelGroup& group, const LineOf& map, int64_t y,
                             const PixelsWithMoments<T>& made) const {
  with_seen(group, map, y, [&](const SeenPixels& seen, const OfTaps<const float>& weights) {
    sums_with_moments(seen, weights, made, pixels_.to);
  });
}
template void DepthwiseLines::forward(const ChannelGroup&, const LineOf&, int64_t,
                                      const PixelsWithMoments<float>&) const;
template void DepthwiseLines::forward(const ChannelGroup&, const LineOf&, int64_t,
                                      const PixelsWithMoments<Bfloat16>&) const;
template void DepthwiseLines::forward(const ChannelGroup&, const LineOf&, int64_t,
                                      const PixelsWithMoments<Float16>&) const;

bool DepthwiseLines::sums_in_one_pass() const { return std::max(lines_.kernel, pixels_.kernel) <= kMostTapsAtOnce; }

std::pair<int64_t, int64_t> DepthwiseLines::new_lines(int64_t y) const {
  const Taps seen = forward_taps(lines_, y).within(lines_.from), before = forward_taps(lines_, y - 1);
  return {std::max(seen.source, before.source + before.count), seen.source + seen.count};
}

PaddedLine DepthwiseLines::map_line() const {
  const Taps last = forward_taps(pixels_, pixels_.to - 1 + kMorePixels);
  return {pixels_.before, pixels_.from, std::max<int64_t>(0, last.source + last.count - pixels_.from)};
}

PaddedLine DepthwiseLines::result_line() const { return {0, pixels_.to, kMorePixels}; }

void DepthwiseLines::for_each_phase(const ChannelGroup& group, const LineOf& gradient, int64_t source, float* sums,
                                    c10::function_ref<void(const Phase&)> work) const {
  TORCH_INTERNAL_ASSERT(direction_ == Direction::kBackward);
  const Taps of_lines = backward_taps(lines_, source).within(lines_.to);
  const float* lines[kMostTaps];
  for (int64_t first = 0; first < std::min(pixels_.stride, pixels_.from); ++first) {
    const Taps of_pixels = backward_taps(pixels_, first);
    const auto values = [&](auto* all) {
      return of_taps(all, group, of_lines, of_pixels, lines_.kernel, pixels_.kernel);
    };
    work({first, pixels_of_phase(pixels_, first),
          seen_by(gradient, of_lines, of_pixels, /*stride=*/1, group.depth, lines),
          values(weights_.const_data_ptr<float>()), values(sums)});
  }
}

void DepthwiseLines::backward(const ChannelGroup& group, const LineOf& gradient, const float* own, int64_t source,
                              float* result, float* sums) const {
  for_each_phase(group, gradient, source, sums, [&](const Phase& phase) {
    weighted_sums_and_products(phase.seen, phase.weights, own + phase.first * group.depth, phase.pixels,
                               result + phase.first * group.depth, pixels_.stride * group.depth, phase.sums);
  });
}

template <class T>
void DepthwiseLines::backward(const ChannelGroup& group, const LineOf& gradient, const NormalizedPixels<T>& own,
                              int64_t source, float* sums) const {
  for_each_phase(group, gradient, source, sums, [&](const Phase& phase) {
    NormalizedPixels<T> of_phase = own;
    of_phase.x += phase.first * own.step;
    of_phase.gradient += phase.first * own.step;
    of_phase.step *= pixels_.stride;
    sums_and_products_taken_back(phase.seen, phase.weights, of_phase, phase.pixels, phase.sums);
  });
}
template void DepthwiseLines::backward(const ChannelGroup&, const LineOf&, const NormalizedPixels<float>&, int64_t,
                                       float*) const;
template void DepthwiseLines::backward(const ChannelGroup&, const LineOf&, const NormalizedPixels<Bfloat16>&, int64_t,
                                       float*) const;
template void DepthwiseLines::backward(const ChannelGroup&, const LineOf&, const NormalizedPixels<Float16>&, int64_t,
                                       float*) const;

bool DepthwiseLines::takes_back_in_one_pass(const Epilogue& epilogue) const {
  return epilogue.curve == Epilogue::Curve::kClamp && sums_in_one_pass();
}

PaddedLine DepthwiseLines::gradient_line() const {
  int64_t first = 0, end = pixels_.to;
  for (int64_t phase = 0; phase < std::min(pixels_.stride, pixels_.from); ++phase) {
    const Taps taps = backward_taps(pixels_, phase);
    first = std::min(first, taps.source);
    end = std::max(end, taps.source + pixels_of_phase(pixels_, phase) - 1 + kMorePixels + taps.count);
  }
  return {-first, pixels_.to, end - pixels_.to};
}

PaddedLine DepthwiseLines::own_line() const { return {0, pixels_.from, kMorePixels * pixels_.stride}; }

at::Tensor DepthwiseLines::weight_gradient(const float* sums, int64_t parts) const {
  const at::Tensor result = at::empty(sizes_, weights_.options());
  const int64_t taps = weights_.size(1), size = taps * kLanes;
  auto* const to = result.mutable_data_ptr<float>();
  parallel_for(weights_.size(0), [&](int64_t lanes) {
    std::vector<double> total(static_cast<size_t>(size));
    for (int64_t part = 0; part < parts; ++part) {
      const float* const own = sums + part * weight_numbers() + lanes * size;
      for (int64_t i = 0; i < size; ++i) total[static_cast<size_t>(i)] += own[i];
    }
    const int64_t first = lanes * kLanes, own = std::min(depth_ - first, kLanes);
    for (int64_t c = 0; c < own; ++c)
      for (int64_t tap = 0; tap < taps; ++tap)  // as they have been seen by the gradient, the last one came first
        to[(first + c) * taps + tap] = static_cast<float>(total[static_cast<size_t>((taps - 1 - tap) * kLanes + c)]);
  });
  return result;
}

}  // namespace osprey::kernels::cpu
