#include "nn/backbones/inception_module.h"

#include <fmt/format.h>

namespace osprey::nn {
namespace inception {

InceptionLayer conv(const std::string& name, int64_t depth, std::array<int64_t, 2> kernel, int64_t stride,
                    Padding padding) {
  return {.kind = InceptionLayer::Kind::kConvolution,
          .name = name,
          .depth = depth,
          .kernel = kernel,
          .stride = stride,
          .padding = padding};
}

InceptionLayer fork(int64_t depth, const std::string& name, std::array<int64_t, 2> kernel,
                    const std::string& other_name, std::array<int64_t, 2> other_kernel) {
  return {InceptionLayer::Kind::kFork, name, depth, kernel, 1, Padding::kSame, other_name, other_kernel};
}

InceptionLayer max_pool(int64_t stride, Padding padding) {
  return {.kind = InceptionLayer::Kind::kMaxPool, .kernel = {3, 3}, .stride = stride, .padding = padding};
}

InceptionLayer average_pool() { return {.kind = InceptionLayer::Kind::kAveragePool, .kernel = {3, 3}}; }

}  // namespace inception

using Kind = InceptionLayer::Kind;

InceptionModule::InceptionModule(int64_t in_depth, const std::vector<Branch>& branches, const InceptionDepths& depths,
                                 const Hyperparams& hyperparams) {
  for (size_t b = 0; b < branches.size(); ++b) {
    int64_t depth = in_depth;
    std::vector<Step> steps;
    for (const InceptionLayer& layer : branches[b]) {
      Step step{layer, nullptr, nullptr};
      const auto block = [&](const std::string& name, std::array<int64_t, 2> kernel) {
        return add_child(*this, fmt::format("Branch_{}/{}", b, name),
                         std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depth,
                                                                      .out_depth = depths(layer.depth),
                                                                      .kernel = kernel,
                                                                      .stride = layer.stride,
                                                                      .padding = layer.padding},
                                                     hyperparams));
      };
      if (layer.kind == Kind::kConvolution || layer.kind == Kind::kFork) step.block = block(layer.name, layer.kernel);
      if (layer.kind == Kind::kFork) step.other = block(layer.other_name, layer.other_kernel);
      if (step.block) depth = step.block->out_depth() + (step.other ? step.other->out_depth() : 0);
      steps.push_back(std::move(step));
    }
    out_depth_ += depth;
    branches_.push_back(std::move(steps));
  }
}

at::Tensor InceptionModule::forward(const at::Tensor& x) {
  std::vector<at::Tensor> outputs;
  for (const std::vector<Step>& branch : branches_) {
    at::Tensor y = x;
    for (const auto& [layer, block, other] : branch) {
      if (layer.kind == Kind::kMaxPool) {
        y = max_pool(y, layer.kernel[0], layer.stride, layer.padding);
      } else if (layer.kind == Kind::kAveragePool) {
        y = average_pool(y, layer.kernel[0], layer.stride, layer.padding);
      } else {
        y = other ? at::cat({block->forward(y), other->forward(y)}, 1) : block->forward(y);
      }
    }
    outputs.push_back(y);
  }
  return at::cat(outputs, 1);
}

}  // namespace osprey::nn
