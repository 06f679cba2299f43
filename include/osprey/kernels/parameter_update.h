#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

/// Operations over all parameters of a model together: each number is read and written once, in a fixed number of
/// launches. Tensors are float32 without holes, on a device that there are kernels for. All throw c10::Error where a
/// tensor is of another kind.
namespace osprey::kernels {

/// How a number w moves, with gradient g; the numbers of the rule and the slots in their order.
enum class UpdateRule {
  kMomentum,               ///< numbers m, f, r; slot a:  a <- m a + f g,  w <- w + r a
  kRmsProp,                ///< numbers rho, m, r, e; slots s, a:  s <- rho s + (1 - rho) g^2,
                           ///< a <- m a + r g / sqrt(s + e),  w <- w - a
  kRmsPropEpsilonOutside,  ///< the same with r g / (sqrt(s) + e)
  kAdam,                   ///< numbers b1, b2, r, e; slots m, v:  m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,
                           ///< w <- w - r m / (sqrt(v) + e)
  kAverage,                ///< number r, no slot:  w <- w + r (g - w), where w is a moving average and g the parameter
};

/// The parameters of one update, their gradients, and what the optimizer keeps of each; all in the same order.
struct ParameterLists {
  const std::vector<at::Tensor>& values;
  const std::vector<at::Tensor>& gradients;         ///< of the values' shapes; a gradient may have another layout
  std::vector<std::vector<at::Tensor>> slots = {};  ///< one list per slot; of the values' shapes and layouts
};

/// numbers   [n] float32 of the rule, on the device of the parameters: whoever repeats a recorded step writes others
///           there
/// proceed   scalar bool on that device; false: nothing is changed. undefined: true
/// operator  osprey::update_parameters
void update_parameters(UpdateRule rule, const ParameterLists& lists, const at::Tensor& numbers,
                       const at::Tensor& proceed = {});

/// What is known of gradients that are finished.
struct FinishedGradients {
  at::Tensor norms;    ///< [n] float64: what `tensor_norms` says of them
  at::Tensor penalty;  ///< scalar float64: what the parameters add to the loss, the sum of l1 |w| + l2 / 2 w^2
};

/// Makes the gradients of a mean with penalties out of those of a sum, in place, and looks at what comes of them:
/// g <- g / divisor + l1 sign(w) + l2 w. Parameters without a penalty are not read.
/// penalties  [n, 2] float32: l1 and l2 of each parameter w
/// divisor    scalar float32 on the device of the gradients; undefined: 1
/// operator   osprey::finish_gradients
FinishedGradients finish_gradients(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& parameters,
                                   const at::Tensor& penalties, const at::Tensor& divisor = {});

/// The Euclidean norm of each tensor: [n] float64, finite exactly where all its numbers are.
/// operator osprey::tensor_norms
at::Tensor tensor_norms(const std::vector<at::Tensor>& tensors);

/// Multiplies each tensor by its own factor, in place.   factors  [n] float32
/// operator osprey::scale_tensors
void scale_tensors(const std::vector<at::Tensor>& tensors, const at::Tensor& factors);

}  // namespace osprey::kernels
