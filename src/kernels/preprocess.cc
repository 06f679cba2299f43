#include "osprey/kernels/preprocess.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/check_range.h"
#include "kernels/cpu/loops/pixel_rows.h"
#include "kernels/device/preprocess.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

/// The same line by line on a CPU, of pictures that are not resized.
template <class In, class Out>
void by_lines(const device::Preprocess<In, Out>& kernel, int64_t pictures) {
  constexpr int64_t kAtATime = 16;  // lines
  const int64_t width = kernel.width, lines = pictures * kernel.height;
  parallel_for(device::blocks_for(lines, kAtATime), [&](int64_t task) {
    for (int64_t line = task * kAtATime; line < std::min(lines, (task + 1) * kAtATime); ++line) {
      const int64_t* const shape =
          kernel.true_shapes != nullptr ? kernel.true_shapes + line / kernel.height * kernel.shape_stride : nullptr;
      const bool outside = shape != nullptr && line % kernel.height >= shape[0];
      const int64_t content = outside ? 0 : shape != nullptr ? std::clamp<int64_t>(shape[1], 0, width) : width;
      cpu::scale_pixels(kernel.images + line * width * 3, content, kernel.channels.scale, kernel.channels.offset,
                        kernel.result + line * width * 3);
      for (int64_t i = (line * width + content) * 3; i < (line + 1) * width * 3; ++i)
        store(kernel.result + i, kernel.channels.pad[i % 3]);
    }
  });
}

template <class In, class Out>
void run(const at::Tensor& images, const at::Tensor& true_shapes, const at::Tensor& source_shapes,
         at::ArrayRef<double> scale, at::ArrayRef<double> offset, at::ArrayRef<double> pad, const at::Tensor& result) {
  using Kernel = device::Preprocess<In, Out>;
  Kernel kernel{device::data<const In>(images),
                device::data<const int64_t>(true_shapes),
                device::data<const int64_t>(source_shapes),
                true_shapes.defined() ? true_shapes.size(1) : 0,
                images.size(2),
                images.size(3),
                result.size(2),
                result.size(3),
                result.size(0) * result.size(2) * result.size(3),
                device::begins_at_multiple(images.const_data_ptr(), Kernel::kPlaces * sizeof(In)) &&
                    device::begins_at_multiple(result.const_data_ptr(), Kernel::kPlaces * sizeof(Out)),
                {},
                device::data<Out>(result)};
  for (size_t c = 0; c < 3; ++c) {
    kernel.channels.scale[c] = static_cast<float>(scale[c]);
    kernel.channels.offset[c] = static_cast<float>(offset[c]);
    kernel.channels.pad[c] = static_cast<float>(pad[c]);
  }
  if (device::takes_loops(images) && !source_shapes.defined()) return by_lines(kernel, images.size(0));
  device::for_each(images, device::blocks_for(kernel.places, Kernel::kPlaces), kernel);
}

at::Tensor preprocess_operator(const at::Tensor& images, const std::optional<at::Tensor>& true_shapes,
                               const std::optional<at::Tensor>& source_shapes, at::IntArrayRef size,
                               at::ArrayRef<double> scale, at::ArrayRef<double> offset, at::ArrayRef<double> pad,
                               at::ScalarType type) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3 &&
                  (images.scalar_type() == at::kByte || images.scalar_type() == at::kFloat),
              "expected images [B, 3, H, W] of uint8 or float32, got ", images.toString(), " ", images.sizes());
  TORCH_CHECK(!true_shapes || (true_shapes->dim() == 2 && true_shapes->size(0) == images.size(0) &&
                               true_shapes->size(1) >= 2 && true_shapes->scalar_type() == at::kLong),
              "expected int64 true_shapes [", images.size(0), ", 2]");
  TORCH_CHECK(
      source_shapes.has_value() == !size.empty() && (size.empty() || (size.size() == 2 && size[0] > 0 && size[1] > 0)),
      "expected the source_shapes and the size [height, width] of what is resized, or neither; got size ", size);
  TORCH_CHECK(!source_shapes || (source_shapes->dim() == 2 && source_shapes->size(0) == images.size(0) &&
                                 source_shapes->size(1) == 2 && source_shapes->scalar_type() == at::kLong),
              "expected int64 source_shapes [", images.size(0), ", 2]");
  TORCH_CHECK(scale.size() == 3 && offset.size() == 3 && pad.size() == 3, "expected a number for each of 3 channels");
  TORCH_CHECK(is_element(type), "a network does not take ", type);
  at::Tensor result =
      at::empty({images.size(0), 3, size.empty() ? images.size(2) : size[0], size.empty() ? images.size(3) : size[1]},
                images.options().dtype(type), at::MemoryFormat::ChannelsLast);
  if (images.is_meta()) return result;
  const at::Tensor x = images.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor shapes = true_shapes ? true_shapes->contiguous() : at::Tensor(),
                   sources = source_shapes ? source_shapes->contiguous() : at::Tensor();
  for (const int64_t side : {0, 1})
    if (source_shapes)
      check_range(sources.select(1, side).contiguous(), 1, x.size(2 + side) + 1,
                  side == 0 ? "the height of a picture" : "the width of a picture");
  const auto of_input = [&](auto* in) {
    using In = std::remove_pointer_t<decltype(in)>;
    with_elements(type, [&](auto* out) {
      run<In, std::remove_pointer_t<decltype(out)>>(x, shapes, sources, scale, offset, pad, result);
    });
  };
  if (x.scalar_type() == at::kByte) {
    of_input(static_cast<uint8_t*>(nullptr));
  } else {
    of_input(static_cast<float*>(nullptr));
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "preprocess(Tensor images, Tensor? true_shapes, Tensor? source_shapes, int[] size, float[] scale, "
         "float[] offset, float[] pad, ScalarType type) -> Tensor",
         &preprocess_operator);
}

}  // namespace

at::Tensor preprocess(const at::Tensor& images, const at::Tensor& true_shapes, const PreprocessOptions& options,
                      const PreprocessResize& resize) {
  static const auto operation = find_operator("preprocess", &preprocess_operator);
  std::vector<int64_t> size;
  if (resize.source_shapes.defined()) size = {resize.height, resize.width};
  return operation.call(images, if_defined(true_shapes), if_defined(resize.source_shapes), size, options.scale,
                        options.offset, options.pad, options.type);
}

}  // namespace osprey::kernels
