#include "osprey/kernels/box_codes.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/box_passes.h"
#include "kernels/code_scales.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check(const at::Tensor& codes, const at::Tensor& anchors) {
  TORCH_CHECK(takes_box_codes(codes, anchors), "expected float32 codes [..., A, 4] of float32 anchors [A, 4], got ",
              codes.toString(), " ", codes.sizes(), " and ", anchors.toString(), " ", anchors.sizes());
}

/// How many of them have a code for each anchor.
int64_t images(const at::Tensor& codes) { return c10::multiply_integers(codes.sizes().slice(0, codes.dim() - 2)); }

at::Tensor decode(const at::Tensor& codes, const at::Tensor& anchors, at::ArrayRef<double> scales) {
  check(codes, anchors);
  const CodeScales own = code_scales(scales);
  const at::Tensor boxes = at::empty(codes.sizes(), codes.options());
  if (codes.is_meta()) return boxes;
  const at::Tensor c = device::aligned(codes), a = device::aligned(anchors);
  for_each_anchor(
      codes, images(codes), a.size(0),
      device::DecodeBox{c.const_data_ptr<float>(), a.const_data_ptr<float>(), own, boxes.mutable_data_ptr<float>()});
  return boxes;
}

at::Tensor decode_backward(const at::Tensor& gradient, const at::Tensor& codes, const at::Tensor& anchors,
                           at::ArrayRef<double> scales) {
  check(codes, anchors);
  TORCH_CHECK(gradient.sizes() == codes.sizes() && gradient.scalar_type() == at::kFloat,
              "expected a float32 gradient like the codes, ", codes.sizes(), ", got ", gradient.toString(), " ",
              gradient.sizes());
  const CodeScales own = code_scales(scales);
  const at::Tensor result = at::empty(codes.sizes(), codes.options());
  if (codes.is_meta()) return result;
  const at::Tensor g = device::aligned(gradient), c = device::aligned(codes), a = device::aligned(anchors);
  for_each_anchor(codes, images(codes), a.size(0),
                  device::DecodeBoxBackward{g.const_data_ptr<float>(), c.const_data_ptr<float>(),
                                            a.const_data_ptr<float>(), own, result.mutable_data_ptr<float>()});
  return result;
}

auto decode_operator() {
  static const auto operation = find_operator("decode_boxes", &decode);
  return operation;
}

class DecodingNode : public torch::autograd::Function<DecodingNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& codes, const at::Tensor& anchors,
                            const std::vector<double>& scales) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({codes, anchors});
    context->saved_data["scales"] = scales;
    return decode_operator().call(codes, anchors, scales);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("decode_boxes");
    static const auto operation = find_operator("decode_boxes_backward", &decode_backward);
    const at::NoGradGuard no_gradients;
    const variable_list saved = context->get_saved_variables();
    return {operation.call(gradients[0], saved[0], saved[1], context->saved_data["scales"].toDoubleVector()), {}, {}};
  }
};

at::Tensor differentiable_decode(const at::Tensor& codes, const at::Tensor& anchors, at::ArrayRef<double> scales) {
  return DecodingNode::apply(codes, anchors, scales.vec());
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "decode_boxes(Tensor codes, Tensor anchors, float[] scales) -> Tensor", &decode,
         &differentiable_decode);
  define(library, "decode_boxes_backward(Tensor gradient, Tensor codes, Tensor anchors, float[] scales) -> Tensor",
         &decode_backward);
}

}  // namespace

bool takes_box_codes(const at::Tensor& codes, const at::Tensor& anchors) {
  return has_kernels(codes) && codes.scalar_type() == at::kFloat && anchors.scalar_type() == at::kFloat &&
         anchors.dim() == 2 && anchors.size(1) == 4 && codes.dim() >= 2 && codes.size(-1) == 4 &&
         codes.size(-2) == anchors.size(0);
}

at::Tensor decode_boxes(const at::Tensor& codes, const at::Tensor& anchors, const CodeScales& scales) {
  return decode_operator().call(codes, anchors, numbers(scales));
}

}  // namespace osprey::kernels
