#include "osprey/kernels/batch_norm_activation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <cmath>
#include <vector>

#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/device/batch_norm.h"
#include "kernels/operator.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A map as rows of channels, in blocks that do not depend on the number of threads.
struct Rows {
  explicit Rows(const at::Tensor& x)
      : depth(x.size(1)),
        count(x.numel() / x.size(1)),
        blocks(std::clamp<int64_t>(count * depth / 32768, 1, 64)),
        per_block((count + blocks - 1) / blocks) {}
  int64_t depth, count, blocks, per_block;

  template <class Work>  // work(block, first row, number of rows)
  void for_each_block(Work work) const {
    parallel_for(blocks, [&](int64_t block) {
      const int64_t first = std::min(count, block * per_block), last = std::min(count, first + per_block);
      work(block, first, last - first);
    });
  }
};

/// Two sums per channel, gathered by blocks and then in their order: [2, C] float64.
template <class Work>  // work(first row, number of rows, scratch, sum, other)
at::Tensor sums(const Rows& rows, Work work) {
  std::vector<double> parts(static_cast<size_t>(2 * rows.blocks * rows.depth));
  rows.for_each_block([&](int64_t block, int64_t first, int64_t number) {
    std::vector<float> scratch(static_cast<size_t>(2 * rows.depth));
    double* sum = parts.data() + 2 * block * rows.depth;
    work(first, number, scratch.data(), sum, sum + rows.depth);
  });
  const at::Tensor result = at::zeros({2, rows.depth}, at::kDouble);
  device::for_each(result, 2 * rows.depth,
                   device::AddParts{parts.data(), rows.blocks, 2 * rows.depth, result.mutable_data_ptr<double>()});
  return result;
}

/// The same by a kernel for devices.
template <class Element>
at::Tensor sums_on_device(const at::Tensor& x, const Element& element) {
  const int64_t depth = x.size(1), rows = x.numel() / depth;
  const auto options = x.options().dtype(at::kDouble);
  const int64_t row_blocks = device::ColumnSums<Element>::row_blocks_for(rows, depth);
  const at::Tensor parts = at::empty({row_blocks, 2, depth}, options), result = at::empty({2, depth}, options);
  const device::ColumnSums<Element> sum{element, rows, depth, row_blocks, parts.mutable_data_ptr<double>()};
  device::launch(x, sum.blocks(), sum);
  device::for_each(
      x, 2 * depth,
      device::AddParts{parts.const_data_ptr<double>(), row_blocks, 2 * depth, result.mutable_data_ptr<double>()});
  return result;
}

/// The sums become those of all replicas. returns  of how many values, each having `count`
double add_up(const ReplicaSum& over, const at::Tensor& sums, double count) {
  over.sum(sums);
  return count * static_cast<double>(over.replicas);
}

at::Tensor channels(const at::Tensor& x) { return at::empty({x.size(1)}, x.options().dtype(at::kFloat)); }

at::Tensor or_value(const at::Tensor& values, const at::Tensor& x, double otherwise) {
  if (!values.defined()) return at::full({x.size(1)}, otherwise, x.options().dtype(at::kFloat));
  TORCH_CHECK(values.scalar_type() == at::kFloat && values.numel() == x.size(1), "expected ", x.size(1),
              " floats, one per channel");
  return values.contiguous();
}

/// Calls `work` with a pointer of the type of the tensor's elements.
template <class Work>
void with_elements(const at::Tensor& x, Work work) {
  if (x.scalar_type() == at::kFloat) work(static_cast<float*>(nullptr));
  if (x.scalar_type() == at::kBFloat16) work(static_cast<Bfloat16*>(nullptr));
  if (x.scalar_type() == at::kHalf) work(static_cast<Float16*>(nullptr));
}

void check(const at::Tensor& x) {
  TORCH_CHECK(fuses_batch_norm(x), "expected a channels_last map of float32 or half the bits, got ", x.toString(), " ",
              x.sizes());
  TORCH_CHECK(x.size(0) > 0 && x.size(1) > 0 && x.size(2) > 0 && x.size(3) > 0, "batch norm of an empty map ",
              x.sizes());
}

/// What the arithmetic needs of a batch norm, with the tensors that it points into.
struct Affine {
  Affine(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, const BatchNormed& statistics,
         const Epilogue& epilogue)
      : scale(or_value(gamma, x, 1) * statistics.inverse_deviation),
        shift(or_value(beta, x, 0)),
        mean(statistics.mean),
        channels{mean.const_data_ptr<float>(), scale.const_data_ptr<float>(), shift.const_data_ptr<float>(), epilogue} {
  }
  at::Tensor scale, shift, mean;
  ChannelAffine channels;
};

/// [2, C] float64: the sums of x and of its square.
at::Tensor moments(const at::Tensor& x) {
  at::Tensor result;
  with_elements(x, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    const int64_t depth = x.size(1);
    const device::Moments<T> element{in, depth};
    if (!device::takes_loops(x)) {
      result = sums_on_device(x, element);
      return;
    }
    const Rows rows(x);
    std::vector<float> center(static_cast<size_t>(depth));
    for (int64_t c = 0; c < depth; ++c) center[static_cast<size_t>(c)] = element.start(c);
    result = sums(rows, [&](int64_t first, int64_t number, float* scratch, double* sum, double* square) {
      cpu::add_moments(in + first * depth, number, depth, center.data(), scratch, sum, square);
    });
    auto* const sum = result.mutable_data_ptr<double>();
    for (int64_t c = 0; c < depth; ++c) element.finish(element.start(c), rows.count, sum[c], sum[depth + c]);
  });
  return result;
}

BatchNormed forward_pass(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                         const Epilogue& epilogue, const ReplicaSum* over) {
  check(x);
  BatchNormed result{at::empty_like(x, x.options(), at::MemoryFormat::ChannelsLast), channels(x), channels(x)};
  if (x.is_meta()) return result;
  const int64_t depth = x.size(1), values = x.numel();
  const at::Tensor sums = moments(x);
  auto count = static_cast<double>(values / depth);
  if (over != nullptr) count = add_up(*over, sums, count);
  const device::Statistics statistics{sums.const_data_ptr<double>(),
                                      depth,
                                      count,
                                      epsilon,
                                      result.mean.mutable_data_ptr<float>(),
                                      result.inverse_deviation.mutable_data_ptr<float>()};
  device::for_each(x, depth, statistics);
  const Affine affine(x, gamma, beta, result, epilogue);
  with_elements(x, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* in = device::data<const T>(x);
    T* const out = device::data<T>(result.y);
    if (!device::takes_loops(x)) {
      const device::Normalize<T> normalize{in, values, depth, affine.channels, out};
      device::launch(x, normalize.blocks(), normalize);
      return;
    }
    Rows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      cpu::normalize_rows(in + first * depth, number, depth, affine.channels, out + first * depth);
    });
  });
  return result;
}

BatchNormGradients backward_pass(const at::Tensor& gradient_y, const at::Tensor& x, const at::Tensor& gamma,
                                 const at::Tensor& beta, const BatchNormed& statistics, const Epilogue& epilogue,
                                 const ReplicaSum* over) {
  check(x);
  TORCH_CHECK(gradient_y.sizes() == x.sizes(), "expected a gradient of size ", x.sizes(), ", got ", gradient_y.sizes());
  BatchNormGradients result{at::empty_like(x, x.options(), at::MemoryFormat::ChannelsLast), channels(x), channels(x)};
  if (x.is_meta()) return result;
  const at::Tensor gradient = gradient_y.to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
  const int64_t depth = x.size(1), values = x.numel();
  const Affine affine(x, gamma, beta, statistics, epilogue);
  const at::Tensor slope = channels(x), offset = channels(x);
  with_elements(x, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *in = device::data<const T>(x), *wanted = device::data<const T>(gradient);
    const bool loops = device::takes_loops(x);
    const device::GradientOfNormalized<T> of{wanted, in, depth, affine.channels};
    const at::Tensor sum = loops ? sums(Rows(x),
                                        [&](int64_t first, int64_t number, float* scratch, double* a, double* b) {
                                          cpu::add_gradient_moments(wanted + first * depth, in + first * depth, number,
                                                                    depth, affine.channels, scratch, a, b);
                                        })
                                 : sums_on_device(x, device::GradientMoments<T>{of});
    result.beta.copy_(sum[0]);
    result.gamma.copy_(sum[1] * statistics.inverse_deviation);
    auto count = static_cast<double>(values / depth);
    if (over != nullptr) count = add_up(*over, sum, count);
    const device::GradientCoefficients coefficients{sum.const_data_ptr<double>(),
                                                    depth,
                                                    count,
                                                    statistics.inverse_deviation.const_data_ptr<float>(),
                                                    affine.channels.scale,
                                                    slope.mutable_data_ptr<float>(),
                                                    offset.mutable_data_ptr<float>()};
    device::for_each(x, depth, coefficients);
    T* const out = device::data<T>(result.x);
    if (!loops) {
      const device::GradientOfInput<T> spread{of, slope.const_data_ptr<float>(), offset.const_data_ptr<float>(), values,
                                              out};
      device::launch(x, spread.blocks(), spread);
      return;
    }
    Rows(x).for_each_block([&](int64_t, int64_t first, int64_t number) {
      const int64_t at = first * depth;
      cpu::gradient_rows(wanted + at, in + at, number, depth, affine.channels, slope.const_data_ptr<float>(),
                         offset.const_data_ptr<float>(), out + at);
    });
  });
  return result;
}

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Epilogue epilogue_of(double low, double high, int64_t curve) {
  TORCH_CHECK(curve >= 0 && curve <= 2, "curve must be 0 (clamp), 1 (swish) or 2 (hard swish), got ", curve);
  return {static_cast<float>(low), static_cast<float>(high), static_cast<Epilogue::Curve>(curve)};
}

ThreeTensors forward_operator(const at::Tensor& x, const std::optional<at::Tensor>& gamma,
                              const std::optional<at::Tensor>& beta, double epsilon, double low, double high,
                              int64_t curve) {
  const BatchNormed result = forward_pass(x, gamma.value_or(at::Tensor()), beta.value_or(at::Tensor()), epsilon,
                                          epilogue_of(low, high, curve), nullptr);
  return {result.y, result.mean, result.inverse_deviation};
}

ThreeTensors backward_operator(const at::Tensor& gradient_y, const at::Tensor& x,
                               const std::optional<at::Tensor>& gamma, const std::optional<at::Tensor>& beta,
                               const at::Tensor& mean, const at::Tensor& inverse_deviation, double low, double high,
                               int64_t curve) {
  const BatchNormGradients result =
      backward_pass(gradient_y, x, gamma.value_or(at::Tensor()), beta.value_or(at::Tensor()),
                    {{}, mean, inverse_deviation}, epilogue_of(low, high, curve), nullptr);
  return {result.x, result.gamma, result.beta};
}

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// The operator; without it where replicas are asked in the middle, which is not for an operator's arguments.
BatchNormed call_forward(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                         const Epilogue& epilogue, const ReplicaSum* over) {
  if (over != nullptr) return forward_pass(x, gamma, beta, epsilon, epilogue, over);
  static const auto operation = find_operator("batch_norm_activation", &forward_operator);
  const auto [y, mean, inverse_deviation] =
      operation.call(x, if_defined(gamma), if_defined(beta), epsilon, epilogue.low, epilogue.high,
                     static_cast<int64_t>(epilogue.curve));
  return {y, mean, inverse_deviation};
}

BatchNormGradients call_backward(const at::Tensor& gradient_y, const at::Tensor& x, const at::Tensor& gamma,
                                 const at::Tensor& beta, const BatchNormed& statistics, const Epilogue& epilogue,
                                 const ReplicaSum* over) {
  if (over != nullptr) return backward_pass(gradient_y, x, gamma, beta, statistics, epilogue, over);
  static const auto operation = find_operator("batch_norm_activation_backward", &backward_operator);
  const auto [gradient_x, gradient_gamma, gradient_beta] =
      operation.call(gradient_y, x, if_defined(gamma), if_defined(beta), statistics.mean, statistics.inverse_deviation,
                     epilogue.low, epilogue.high, static_cast<int64_t>(epilogue.curve));
  return {gradient_x, gradient_gamma, gradient_beta};
}

/// A sum over replicas, as the graph of gradients keeps it.
struct KeptSum : torch::CustomClassHolder {
  explicit KeptSum(std::shared_ptr<const ReplicaSum> sum) : over(std::move(sum)) {}
  std::shared_ptr<const ReplicaSum> over;
};

/// The node of the graph of gradients. It keeps nothing but the input.
class Node : public torch::autograd::Function<Node> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& gamma,
                               const std::optional<at::Tensor>& beta, double epsilon, const Epilogue& epilogue,
                               const std::shared_ptr<const ReplicaSum>& over) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor scale = gamma.value_or(at::Tensor()), shift = beta.value_or(at::Tensor());
    const BatchNormed result = call_forward(x, scale, shift, epsilon, epilogue, over.get());
    context->save_for_backward({x, scale, shift, result.mean, result.inverse_deviation});
    context->saved_data["range"] = std::vector<double>{epilogue.low, epilogue.high};
    context->saved_data["curve"] = static_cast<int64_t>(epilogue.curve);
    context->saved_data["over"] = c10::IValue::make_capsule(c10::make_intrusive<KeptSum>(over));
    context->mark_non_differentiable({result.mean, result.inverse_deviation});
    return {result.y, result.mean, result.inverse_deviation};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::NoGradGuard no_gradients;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gamma = saved[1], &beta = saved[2];
    const auto range = context->saved_data["range"].toDoubleVector();
    const Epilogue epilogue{static_cast<float>(range[0]), static_cast<float>(range[1]),
                            static_cast<Epilogue::Curve>(context->saved_data["curve"].toInt())};
    const auto over = context->saved_data["over"].toCapsule();
    const BatchNormGradients result = call_backward(gradients[0], x, gamma, beta, {{}, saved[3], saved[4]}, epilogue,
                                                    static_cast<const KeptSum&>(*over).over.get());
    return {
        result.x, gamma.defined() ? result.gamma : at::Tensor(), beta.defined() ? result.beta : at::Tensor(), {}, {},
        {}};
  }
};

ThreeTensors differentiable_operator(const at::Tensor& x, const std::optional<at::Tensor>& gamma,
                                     const std::optional<at::Tensor>& beta, double epsilon, double low, double high,
                                     int64_t curve) {
  const variable_list result =
      Node::apply(x, gamma, beta, epsilon, epilogue_of(low, high, curve), std::shared_ptr<const ReplicaSum>());
  return {result[0], result[1], result[2]};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "batch_norm_activation(Tensor x, Tensor? gamma, Tensor? beta, float epsilon, float low, float high, "
         "int curve) -> (Tensor, Tensor, Tensor)",
         &forward_operator, &differentiable_operator);
  define(library,
         "batch_norm_activation_backward(Tensor gradient_y, Tensor x, Tensor? gamma, Tensor? beta, Tensor mean, "
         "Tensor inverse_deviation, float low, float high, int curve) -> (Tensor, Tensor, Tensor)",
         &backward_operator);
}

}  // namespace

bool fuses_batch_norm(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return has_kernels(x) && x.dim() == 4 && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

BatchNormed batch_norm_activation(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                                  const Epilogue& epilogue, const std::shared_ptr<const ReplicaSum>& over) {
  if (over == nullptr) return call_forward(x, gamma, beta, epsilon, epilogue, nullptr);
  const variable_list result = Node::apply(x, if_defined(gamma), if_defined(beta), epsilon, epilogue, over);
  return {result[0], result[1], result[2]};
}

BatchNormGradients batch_norm_activation_backward(const at::Tensor& gradient_y, const at::Tensor& x,
                                                  const at::Tensor& gamma, const at::Tensor& beta,
                                                  const BatchNormed& statistics, const Epilogue& epilogue) {
  return call_backward(gradient_y, x, gamma, beta, statistics, epilogue, nullptr);
}

}  // namespace osprey::kernels
