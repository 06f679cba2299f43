#include "detect/drawn_video.h"

#include <algorithm>

#include "osprey/eval/draw.h"

namespace osprey::tools {

void DrawnVideo::fill(int64_t length) {
  for (; written_ < length; ++written_) writer_->add(shown_);
}

void DrawnVideo::show(const at::Tensor& picture, int64_t place) {
  if (!writer_) {
    writer_ = create_video(file_, frames_per_second_, picture.size(0), picture.size(1));
    shown_ = picture;
  }
  fill(place);
  shown_ = eval::resize_for_view(picture, shown_.size(0), shown_.size(1));  // streams may change their size
}

void DrawnVideo::finish(int64_t length) {
  if (!writer_) return;
  fill(std::max(length, written_ + 1));
  writer_->finish();
}

}  // namespace osprey::tools
