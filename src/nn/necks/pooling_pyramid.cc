#include "osprey/nn/convolution.h"
#include "osprey/nn/neck.h"

namespace osprey::nn {
namespace {

class PoolingPyramidNeck final : public Neck {
 public:
  PoolingPyramidNeck(const PoolingPyramidOptions& options, const Backbone& backbone)
      : endpoint_(options.endpoint),
        depths_(static_cast<size_t>(options.num_layers), backbone.depth(options.endpoint)) {}

  std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context&) override {
    std::vector<at::Tensor> maps{endpoints.at(endpoint_)};
    while (maps.size() < depths_.size()) maps.push_back(max_pool(maps.back(), 2, 2, Padding::kSame));
    return maps;
  }

  std::set<std::string> endpoints() const override { return {endpoint_}; }
  std::vector<int64_t> depths() const override { return depths_; }

 private:
  std::string endpoint_;
  std::vector<int64_t> depths_;
};

}  // namespace

std::unique_ptr<Neck> make_pooling_pyramid_neck(const PoolingPyramidOptions& options, const Backbone& backbone) {
  return std::make_unique<PoolingPyramidNeck>(options, backbone);
}

}  // namespace osprey::nn
