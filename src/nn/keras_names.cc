#include "osprey/nn/keras_names.h"

#include <map>
#include <stdexcept>

namespace osprey::nn {
namespace {

std::map<std::string, KerasNameRule>& rules() {
  static std::map<std::string, KerasNameRule> result;
  return result;
}

}  // namespace

std::optional<std::string> keras_name(const std::string& our_name) {
  for (size_t end = our_name.rfind('.'); end != std::string::npos;
       end = end == 0 ? end - 1 : our_name.rfind('.', end - 1)) {
    const auto rule = rules().find(our_name.substr(0, end + 1));
    if (rule != rules().end()) return rule->second(our_name.substr(end + 1));
  }
  return std::nullopt;
}

bool add_keras_names(const std::string& scope, KerasNameRule rule) {
  if (!rules().emplace(scope, std::move(rule)).second) throw std::logic_error("registered twice: " + scope);
  return true;
}

std::string keras_leaf(const std::string& leaf) {
  static const std::map<std::string, std::string> names = {{"weights", "kernel"},
                                                           {"biases", "bias"},
                                                           {"depthwise_weights", "depthwise_kernel"},
                                                           {"pointwise_weights", "pointwise_kernel"}};
  const auto found = names.find(leaf);
  return found == names.end() ? leaf : found->second;
}

SplitName split_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string keras_block_name(const std::string& place, const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  const std::string block = place + "/" + scope.substr(0, scope.find('.'));
  if (scope.ends_with(".BatchNorm")) return block + "_batchnorm/" + leaf;
  const bool separable = leaf == "depthwise_weights" || leaf == "pointwise_weights";
  return block + (separable ? "_depthwise_conv/" : "_conv/") + keras_leaf(leaf);
}

}  // namespace osprey::nn
