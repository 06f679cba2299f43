// Inception v3: factorised convolutions.
// Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016, table 1.
#include "nn/backbones/inception_module.h"
#include "osprey/nn/backbone.h"

namespace osprey::nn {
namespace {

using inception::average_pool;
using inception::conv;
using inception::fork;
using inception::k1x3, inception::k1x7, inception::k3x1, inception::k3x3, inception::k5x5, inception::k7x1;
using inception::max_pool;
using Branches = std::vector<InceptionModule::Branch>;

/// Maps of 35x35 (at 299 pixels). The scopes of one of them are named differently in every checkpoint.
Branches fine(int64_t pooled, const std::string& reduce = "Conv2d_0a_1x1", const std::string& wide = "Conv2d_0b_5x5") {
  return {{conv("Conv2d_0a_1x1", 64)},
          {conv(reduce, 48), conv(wide, 64, k5x5)},
          {conv("Conv2d_0a_1x1", 64), conv("Conv2d_0b_3x3", 96, k3x3), conv("Conv2d_0c_3x3", 96, k3x3)},
          {average_pool(), conv("Conv2d_0b_1x1", pooled)}};
}

/// Maps of 17x17.
Branches middle(int64_t d) {
  return {{conv("Conv2d_0a_1x1", 192)},
          {conv("Conv2d_0a_1x1", d), conv("Conv2d_0b_1x7", d, k1x7), conv("Conv2d_0c_7x1", 192, k7x1)},
          {conv("Conv2d_0a_1x1", d), conv("Conv2d_0b_7x1", d, k7x1), conv("Conv2d_0c_1x7", d, k1x7),
           conv("Conv2d_0d_7x1", d, k7x1), conv("Conv2d_0e_1x7", 192, k1x7)},
          {average_pool(), conv("Conv2d_0b_1x1", 192)}};
}

/// Maps of 8x8.
Branches coarse(const std::string& tall) {
  return {{conv("Conv2d_0a_1x1", 320)},
          {conv("Conv2d_0a_1x1", 384), fork(384, "Conv2d_0b_1x3", k1x3, tall, k3x1)},
          {conv("Conv2d_0a_1x1", 448), conv("Conv2d_0b_3x3", 384, k3x3),
           fork(384, "Conv2d_0c_1x3", k1x3, "Conv2d_0d_3x1", k3x1)},
          {average_pool(), conv("Conv2d_0b_1x1", 192)}};
}

std::vector<std::pair<std::string, Branches>> inception_v3_layout() {
  constexpr Padding kValid = Padding::kValid;
  return {{"Mixed_5b", fine(32)},
          {"Mixed_5c", fine(64, "Conv2d_0b_1x1", "Conv_1_0c_5x5")},
          {"Mixed_5d", fine(64)},
          {"Mixed_6a",
           {{conv("Conv2d_1a_1x1", 384, k3x3, 2, kValid)},
            {conv("Conv2d_0a_1x1", 64), conv("Conv2d_0b_3x3", 96, k3x3), conv("Conv2d_1a_1x1", 96, k3x3, 2, kValid)},
            {max_pool(2, kValid)}}},
          {"Mixed_6b", middle(128)},
          {"Mixed_6c", middle(160)},
          {"Mixed_6d", middle(160)},
          {"Mixed_6e", middle(192)},
          {"Mixed_7a",
           {{conv("Conv2d_0a_1x1", 192), conv("Conv2d_1a_3x3", 320, k3x3, 2, kValid)},
            {conv("Conv2d_0a_1x1", 192), conv("Conv2d_0b_1x7", 192, k1x7), conv("Conv2d_0c_7x1", 192, k7x1),
             conv("Conv2d_1a_3x3", 192, k3x3, 2, kValid)},
            {max_pool(2, kValid)}}},
          {"Mixed_7b", coarse("Conv2d_0b_3x1")},
          {"Mixed_7c", coarse("Conv2d_0c_3x1")}};
}

/// What the original uses outside of detection.
Hyperparams inception_v3_hyperparams(bool freeze_batch_norm) {
  Hyperparams result;
  result.regularizer = result.depthwise_regularizer = {Regularizer::Kind::kL2, 0.00004};
  result.initializer = Initializer::truncated_normal(0, 0.1);
  result.activation = Activation::kRelu;
  result.batch_norm = BatchNormOptions{.decay = 0.9997, .epsilon = 0.001, .train = !freeze_batch_norm};
  return result;
}

class InceptionV3 final : public Backbone {
 public:
  explicit InceptionV3(const BackboneOptions& options) {
    Hyperparams hyperparams =
        options.hyperparams ? *options.hyperparams : inception_v3_hyperparams(options.freeze_batch_norm);
    hyperparams.quantization = behind_activations(options.quantization);
    const InceptionDepths depths{options.depth_multiplier, options.min_depth};
    int64_t depth = 3;
    const auto add = [&](const std::string& name, int64_t out, int64_t kernel, int64_t stride, Padding padding) {
      first_.push_back(register_module(name, std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depth,
                                                                                          .out_depth = depths(out),
                                                                                          .kernel = {kernel, kernel},
                                                                                          .stride = stride,
                                                                                          .padding = padding},
                                                                         hyperparams)));
      depth = depths(out);
    };
    add("Conv2d_1a_3x3", 32, 3, 2, Padding::kValid);
    add("Conv2d_2a_3x3", 32, 3, 1, Padding::kValid);
    add("Conv2d_2b_3x3", 64, 3, 1, Padding::kSame);
    add("Conv2d_3b_1x1", 80, 1, 1, Padding::kValid);
    add("Conv2d_4a_3x3", 192, 3, 1, Padding::kValid);
    for (const auto& [name, branches] : inception_v3_layout()) {
      modules_.emplace_back(
          name, register_module(name, std::make_shared<InceptionModule>(depth, branches, depths, hyperparams)));
      depth = modules_.back().second->out_depth();
      if (name == options.last_endpoint) break;
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context&) override {
    Endpoints endpoints;
    at::Tensor x = images;
    for (size_t i = 0; i < first_.size(); ++i) {
      x = first_[i]->forward(x);
      if (i == 2 || i == 4) x = nn::max_pool(x, 3, 2, Padding::kValid);
    }
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
    throw std::out_of_range("Inception v3 has no endpoint " + endpoint);
  }

  std::string scope() const override { return "InceptionV3"; }

 private:
  std::vector<std::shared_ptr<ConvBlock>> first_;
  std::vector<std::pair<std::string, std::shared_ptr<InceptionModule>>> modules_;
};

std::unique_ptr<Backbone> make_inception_v3(const BackboneOptions& options) {
  return std::make_unique<InceptionV3>(options);
}
OSPREY_REGISTER_TYPE(Backbone, "inception_v3", &make_inception_v3);

}  // namespace
}  // namespace osprey::nn
