#include "kernels/cpu/window_rows.h"

#include <algorithm>

#include "kernels/cpu/loops/floats.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::cpu {
namespace {

/// The taps of one side whose windows see no padding at a place of the result, and what the first of them sees.
struct Inside {
  Inside(const Side& side, int64_t place) {
    const int64_t start = place * side.stride - side.before;
    first = std::clamp<int64_t>(-start, 0, side.kernel);
    count = std::clamp<int64_t>(side.from - start, first, side.kernel) - first;
    source = start + first;
  }
  int64_t first, count, source;
};

}  // namespace

WindowRows::WindowRows(const at::Tensor& map, const Sides& sides)
    : lines_(sides.lines),
      pixels_(sides.pixels),
      depth_(map.size(1)),
      places_(map.size(0) * lines_.to * pixels_.to),
      seen_(lines_.kernel * pixels_.kernel * depth_),
      length_(seen_ == depth_ ? depth_ : device::blocks_for(seen_, kPanelColumns) * kPanelColumns),
      line_size_(pixels_.from * depth_),
      picture_size_(lines_.from * line_size_) {}

template <class Number>
void WindowRows::gather(int64_t begin, int64_t end, const Copy<Number>& copy, Number* rows) const {
  const int64_t of_line = pixels_.kernel * depth_;
  for (int64_t place = begin; place < end;) {
    const int64_t line = place / pixels_.to, first = place % pixels_.to,
                  last = std::min(pixels_.to, first + end - place);
    const Inside y(lines_, line % lines_.to);
    const int64_t from = line / lines_.to * picture_size_ + y.source * line_size_;
    for (int64_t i = first; i < last;) {
      // As many windows as see no padding beside them, or one that does.
      const Inside x(pixels_, i);
      int64_t count = 1;
      if (x.count == pixels_.kernel)
        while (i + count < last && Inside(pixels_, i + count).count == pixels_.kernel) ++count;
      const bool whole = x.count * y.count == pixels_.kernel * lines_.kernel;
      for (int64_t window = 0; window < count; ++window)
        std::fill(rows + window * length_ + (whole ? seen_ : 0), rows + (window + 1) * length_, Number{});
      for (int64_t tap = 0; tap < y.count; ++tap)
        copy(from + x.source * depth_ + tap * line_size_, pixels_.stride * depth_, count, x.count,
             rows + (y.first + tap) * of_line + x.first * depth_, length_);
      rows += count * length_;
      i += count;
    }
    place += last - first;
  }
}
template void WindowRows::gather(int64_t, int64_t, const Copy<float>&, float*) const;
template void WindowRows::gather(int64_t, int64_t, const Copy<Bfloat16>&, Bfloat16*) const;

void WindowRows::sum_line(const float* rows, int64_t picture, int64_t line, float* result) const {
  std::fill_n(result, line_size_, 0.0f);
  for (int64_t y = 0; y < lines_.to; ++y) {
    const int64_t tap = line + lines_.before - y * lines_.stride;
    if (tap < 0 || tap >= lines_.kernel) continue;
    for (int64_t i = 0; i < pixels_.to; ++i) {
      const Inside x(pixels_, i);
      add_floats(
          rows + ((picture * lines_.to + y) * pixels_.to + i) * length_ + (tap * pixels_.kernel + x.first) * depth_,
          x.count * depth_, result + x.source * depth_);
    }
  }
}

}  // namespace osprey::kernels::cpu
