// Inception v2: Inception with batch norm, 5x5 convolutions split in two and a separable first layer.
// Ioffe and Szegedy, "Batch Normalization", ICML 2015, appendix (figure 5).
#include "nn/backbones/inception_module.h"
#include "osprey/nn/backbone.h"
#include "osprey/nn/separable_convolution.h"

namespace osprey::nn {
namespace {

using inception::average_pool;
using inception::conv;
using inception::k3x3;
using inception::max_pool;
using Branches = std::vector<InceptionModule::Branch>;

/// A module that keeps the size of its map: 1x1, 3x3 and twice 3x3 convolutions, and a pool.
Branches keep(int64_t single, std::array<int64_t, 2> middle, std::array<int64_t, 2> doubled, const InceptionLayer& pool,
              int64_t pooled) {
  return {{conv("Conv2d_0a_1x1", single)},
          {conv("Conv2d_0a_1x1", middle[0]), conv("Conv2d_0b_3x3", middle[1], k3x3)},
          {conv("Conv2d_0a_1x1", doubled[0]), conv("Conv2d_0b_3x3", doubled[1], k3x3),
           conv("Conv2d_0c_3x3", doubled[1], k3x3)},
          {pool, conv("Conv2d_0b_1x1", pooled)}};
}

/// A module that halves it.
Branches halve(std::array<int64_t, 2> single, std::array<int64_t, 2> doubled) {
  return {{conv("Conv2d_0a_1x1", single[0]), conv("Conv2d_1a_3x3", single[1], k3x3, 2)},
          {conv("Conv2d_0a_1x1", doubled[0]), conv("Conv2d_0b_3x3", doubled[1], k3x3),
           conv("Conv2d_1a_3x3", doubled[1], k3x3, 2)},
          {max_pool(2)}};
}

std::vector<std::pair<std::string, Branches>> inception_v2_layout() {
  return {{"Mixed_3b", keep(64, {64, 64}, {64, 96}, average_pool(), 32)},
          {"Mixed_3c", keep(64, {64, 96}, {64, 96}, average_pool(), 64)},
          {"Mixed_4a", halve({128, 160}, {64, 96})},
          {"Mixed_4b", keep(224, {64, 96}, {96, 128}, average_pool(), 128)},
          {"Mixed_4c", keep(192, {96, 128}, {96, 128}, average_pool(), 128)},
          {"Mixed_4d", keep(160, {128, 160}, {128, 160}, average_pool(), 96)},
          {"Mixed_4e", keep(96, {128, 192}, {160, 192}, average_pool(), 96)},
          {"Mixed_5a", halve({128, 192}, {192, 256})},
          {"Mixed_5b", keep(352, {192, 320}, {160, 224}, average_pool(), 128)},
          {"Mixed_5c", keep(352, {192, 320}, {192, 224}, max_pool(1), 128)}};
}

/// What the original uses outside of detection.
Hyperparams inception_v2_hyperparams(bool freeze_batch_norm) {
  Hyperparams result;
  result.regularizer = result.depthwise_regularizer = {Regularizer::Kind::kL2, 0.00004};
  result.initializer = Initializer::truncated_normal(0, 0.09);
  result.activation = Activation::kRelu;
  result.batch_norm = BatchNormOptions{.decay = 0.9997, .epsilon = 0.001, .train = !freeze_batch_norm};
  return result;
}

class InceptionV2 final : public Backbone {
 public:
  explicit InceptionV2(const BackboneOptions& options) {
    Hyperparams hyperparams =
        options.hyperparams ? *options.hyperparams : inception_v2_hyperparams(options.freeze_batch_norm);
    hyperparams.quantization = behind_activations(options.quantization);
    const InceptionDepths depths{options.depth_multiplier, options.min_depth};
    first_ = register_module(
        "Conv2d_1a_7x7",
        std::make_shared<SeparableConvBlock>(
            SeparableConvBlockOptions{.in_depth = 3,
                                      .out_depth = depths(64),
                                      .kernel = {7, 7},
                                      .stride = 2,
                                      .depth_multiplier = std::max<int64_t>(1, std::min<int64_t>(depths(64) / 3, 8)),
                                      .depthwise_initializer = Initializer::truncated_normal(0, 1)},
            hyperparams));
    second_ = register_module(
        "Conv2d_2b_1x1",
        std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depths(64), .out_depth = depths(64)}, hyperparams));
    third_ = register_module(
        "Conv2d_2c_3x3",
        std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depths(64), .out_depth = depths(192), .kernel = k3x3},
                                    hyperparams));
    int64_t depth = third_->out_depth();
    for (const auto& [name, branches] : inception_v2_layout()) {
      modules_.emplace_back(
          name, register_module(name, std::make_shared<InceptionModule>(depth, branches, depths, hyperparams)));
      depth = modules_.back().second->out_depth();
      if (name == options.last_endpoint) break;
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context&) override {
    Endpoints endpoints;
    at::Tensor x = nn::max_pool(first_->forward(images), 3, 2, Padding::kSame);
    x = nn::max_pool(third_->forward(second_->forward(x)), 3, 2, Padding::kSame);
    for (const auto& [name, module] : modules_) {
      if (endpoints.size() == wanted.size()) break;
      x = module->forward(x);
      if (wanted.count(name) > 0) endpoints[name] = x;
    }
    return endpoints;
  }

  int64_t depth(const std::string& endpoint) const override {
    for (const auto& [name, module] : modules_)
      if (name == endpoint) return module->out_depth();
    throw std::out_of_range("Inception v2 has no endpoint " + endpoint);
  }

  std::string scope() const override { return "InceptionV2"; }

 private:
  std::shared_ptr<SeparableConvBlock> first_;
  std::shared_ptr<ConvBlock> second_, third_;
  std::vector<std::pair<std::string, std::shared_ptr<InceptionModule>>> modules_;
};

std::unique_ptr<Backbone> make_inception_v2(const BackboneOptions& options) {
  return std::make_unique<InceptionV2>(options);
}
OSPREY_REGISTER_TYPE(Backbone, "inception_v2", &make_inception_v2);

}  // namespace
}  // namespace osprey::nn
