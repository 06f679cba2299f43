#pragma once
#include <ATen/ATen.h>

namespace osprey::losses {

/// -z log(p) - (1 - z) log(1 - p) with p = sigmoid(x), element by element, exact to rounding for any x. Gradients flow
/// to logits and targets.
at::Tensor sigmoid_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

/// -sum over classes of z log(softmax(x)): [B, A, C] -> [B, A]. The slope is TensorFlow's, softmax(x) - z whatever the
/// targets sum to, which is the derivative where they sum to one. Gradients flow to the logits only.
/// source  tf.nn.softmax_cross_entropy_with_logits
at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

/// The weight of an anchor as losses over coupled classes use it: the mean of its class weights, [B, A].
inline at::Tensor mean_class_weight(const at::Tensor& weights) { return weights.mean(2); }

/// Weights of anchors, [B, A], spread over the codes; weights of codes, [B, A, K], as they are.
inline at::Tensor code_weights(const at::Tensor& weights) {
  return weights.dim() == 2 ? weights.unsqueeze(2) : weights;
}

/// One weight per anchor, [B, A], for losses that couple the codes.
inline at::Tensor anchor_weights(const at::Tensor& weights) {
  TORCH_CHECK(weights.dim() == 2, "this loss takes one weight per anchor, [B, A], got ", weights.sizes());
  return weights;
}

}  // namespace osprey::losses
