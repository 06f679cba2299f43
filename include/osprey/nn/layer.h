#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "osprey/nn/initializer.h"
#include "osprey/nn/regularizer.h"

namespace osprey::nn {

/// What a forward pass may need beside its feature maps.
struct Context {
  at::Tensor example_keys;  ///< [B] int64: keys the random draws of training; undefined: no draws are made
};

/// What a layer tells about one of its parameters.
struct Variable {
  std::string name;  ///< within the layer, e.g. "weights"
  at::Tensor tensor;
  Initializer initializer;
  Fans fans;
  Regularizer regularizer;
};

/// Base of every layer that owns variables. Layers are made with unset values; `initialize_model` fills them once the
/// whole model stands and the full names are known. A layer's place in the module tree is its scope in a checkpoint.
class Layer : public torch::nn::Module {
 public:
  const std::vector<Variable>& own_variables() const { return own_variables_; }

  /// Told once, when the model stands: the layer's full name and the seed of the run.
  virtual void on_named(const std::string& /*full_name*/, uint64_t /*seed*/) {}

  /// Throws away the statistics that forward passes in training have kept aside. Those of all layers of a kind are
  /// taken over together: `BatchNorm::commit`, `FakeQuantize::commit`.
  virtual void discard_statistics() {}

 protected:
  /// Registers a trainable float variable, in channels_last order where it has four dimensions.
  at::Tensor add_variable(const std::string& name, at::IntArrayRef sizes, const Initializer& initializer,
                          const Fans& fans = {}, const Regularizer& regularizer = {});
  /// Registers a float variable that is not trained, with the same value everywhere.
  at::Tensor add_statistic(const std::string& name, at::IntArrayRef sizes, double value);

 private:
  std::vector<Variable> own_variables_;
};

/// While one of these lives, the layers that this thread makes have shapes only: their variables are on the meta
/// device.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;
};

/// Draws the first value of every variable of a model that lives on the CPU.
void initialize_model(torch::nn::Module& model, uint64_t seed);

/// Every weight of the model that has a penalty, in the order of construction.
std::vector<RegularizedWeight> regularized_weights(const torch::nn::Module& model);

/// Registers `child` under a scope of one or more segments ("ProjectionLayer/conv2d_0"); containers in between are made
/// where they are missing.
template <class M>
std::shared_ptr<M> add_child(torch::nn::Module& parent, const std::string& scope, std::shared_ptr<M> child);

/// Registers the children of `part` in `parent` under their own names, for a part that has no scope of its own in the
/// checkpoint. Whoever calls keeps `part` itself alive.
void adopt_children(torch::nn::Module& parent, const torch::nn::Module& part);

namespace detail {
/// The container that holds the last segment of `scope`, and that segment.
std::pair<torch::nn::Module*, std::string> container_of(torch::nn::Module& parent, const std::string& scope);
}  // namespace detail

template <class M>
std::shared_ptr<M> add_child(torch::nn::Module& parent, const std::string& scope, std::shared_ptr<M> child) {
  auto [container, name] = detail::container_of(parent, scope);
  return container->register_module(name, std::move(child));
}

}  // namespace osprey::nn
