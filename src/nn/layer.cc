#include "osprey/nn/layer.h"

namespace osprey::nn {
namespace {

thread_local int shapes_only = 0;  // how many ShapesOnly live in this thread

at::TensorOptions variable_options() {
  return at::TensorOptions(shapes_only > 0 ? at::kMeta : at::kCPU).dtype(at::kFloat);
}

}  // namespace

ShapesOnly::ShapesOnly() { ++shapes_only; }
ShapesOnly::~ShapesOnly() { --shapes_only; }

at::Tensor Layer::add_variable(const std::string& name, at::IntArrayRef sizes, const Initializer& initializer,
                               const Fans& fans, const Regularizer& regularizer) {
  at::Tensor values = at::empty(sizes, variable_options());
  if (values.dim() == 4) values = values.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor& tensor = register_parameter(name, values);
  own_variables_.push_back({name, tensor, initializer, fans, regularizer});
  return tensor;
}

at::Tensor Layer::add_statistic(const std::string& name, at::IntArrayRef sizes, double value) {
  return register_buffer(name, at::full(sizes, value, variable_options()));
}

void initialize_model(torch::nn::Module& model, uint64_t seed) {
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    auto* layer = dynamic_cast<Layer*>(item.value().get());
    if (layer == nullptr) continue;
    for (const Variable& variable : layer->own_variables())
      initialize(variable.tensor, variable.initializer, variable.fans, item.key() + "." + variable.name, seed);
    layer->on_named(item.key(), seed);
  }
}

std::vector<RegularizedWeight> regularized_weights(const torch::nn::Module& model) {
  std::vector<RegularizedWeight> result;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    const auto* layer = dynamic_cast<const Layer*>(module.get());
    if (layer == nullptr) continue;
    for (const Variable& variable : layer->own_variables())
      if (variable.regularizer.kind != Regularizer::Kind::kNone)
        result.push_back({variable.tensor, variable.regularizer});
  }
  return result;
}

void adopt_children(torch::nn::Module& parent, const torch::nn::Module& part) {
  for (const auto& child : part.named_children()) parent.register_module(child.key(), child.value());
}

std::pair<torch::nn::Module*, std::string> detail::container_of(torch::nn::Module& parent, const std::string& scope) {
  const size_t slash = scope.find('/');
  if (slash == std::string::npos) return {&parent, scope};
  const std::string head = scope.substr(0, slash);
  auto children = parent.named_children();
  std::shared_ptr<torch::nn::Module>* found = children.find(head);
  const std::shared_ptr<torch::nn::Module> container =
      found != nullptr ? *found : parent.register_module(head, std::make_shared<torch::nn::Module>());
  return container_of(*container, scope.substr(slash + 1));
}

}  // namespace osprey::nn
