#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace osprey::nn {

/// How our variables correspond to those of a TensorFlow checkpoint of a slim (TF1) model.
///
/// Names: module names are the variable scopes, so "A.B.weights" is "A/B/weights".
/// Layouts: a convolution is [out, in, h, w] here and [h, w, in, out] there; a depthwise kernel (its leaf name holds
/// "depthwise") is [in, multiplier, h, w] here and [h, w, in, multiplier] there; everything else is the same.
std::string tf_name(const std::string& our_name);
std::string our_name(const std::string& tf_name);

/// Shape of one of our variables as TensorFlow stores it.
std::vector<int64_t> tf_shape(const std::string& our_name, at::IntArrayRef our_shape);

/// The values of one of our variables in TensorFlow's layout; and back.
at::Tensor to_tf_layout(const std::string& our_name, const at::Tensor& tensor);
at::Tensor from_tf_layout(const std::string& our_name, const at::Tensor& tensor);

}  // namespace osprey::nn
