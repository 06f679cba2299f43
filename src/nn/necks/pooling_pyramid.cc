#include <fmt/format.h>

#include "osprey/nn/convolution.h"
#include "osprey/nn/neck.h"

namespace osprey::nn {
namespace {

class PoolingPyramidNeck final : public Neck {
 public:
  PoolingPyramidNeck(const PoolingPyramidOptions& options, const Backbone& backbone, const Hyperparams& hyperparams)
      : endpoint_(options.endpoint) {
    int64_t depth = backbone.depth(options.endpoint);
    if (options.base_depth > 0) {
      base_ = register_module(fmt::format("Base_Conv2d_1x1_{}", options.base_depth),
                              std::make_shared<ConvBlock>(
                                  ConvBlockOptions{.in_depth = depth, .out_depth = options.base_depth}, hyperparams));
      depth = options.base_depth;
    }
    depths_.assign(static_cast<size_t>(options.num_layers), depth);
  }

  std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context&) override {
    const at::Tensor& map = endpoints.at(endpoint_);
    std::vector<at::Tensor> maps{base_ ? base_->forward(map) : map};
    while (maps.size() < depths_.size()) maps.push_back(max_pool(maps.back(), 2, 2, Padding::kSame));
    return maps;
  }

  std::set<std::string> endpoints() const override { return {endpoint_}; }
  std::vector<int64_t> depths() const override { return depths_; }

 private:
  std::string endpoint_;
  std::shared_ptr<ConvBlock> base_;
  std::vector<int64_t> depths_;
};

}  // namespace

std::unique_ptr<Neck> make_pooling_pyramid_neck(const PoolingPyramidOptions& options, const Backbone& backbone,
                                                const Hyperparams& hyperparams) {
  return std::make_unique<PoolingPyramidNeck>(options, backbone, hyperparams);
}

}  // namespace osprey::nn
