#include "nn/backbones/mobilenet_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nn/backbones/make_divisible.h"

namespace osprey::nn {
namespace {

/// What the original uses unless the config overrides it.
Hyperparams mobilenet_chain_hyperparams(const BackboneOptions& options) {
  Hyperparams result;
  result.regularizer = {Regularizer::Kind::kL2, 0.00004};
  if (options.keras) result.depthwise_regularizer = result.regularizer;
  result.initializer = Initializer::truncated_normal(0, 0.09);
  result.batch_norm = BatchNormOptions{.decay = 0.9997, .epsilon = 0.001, .train = !options.freeze_batch_norm};
  return result;
}

/// Channels that a layer gives before the least depth has its say. In Keras those of the last convolution never grow.
int64_t rounded_depth(const MobilenetLayer& layer, const BackboneOptions& options) {
  const double multiplied = static_cast<double>(layer.depth) * options.depth_multiplier;
  if (!options.keras) return make_divisible(multiplied, 8, options.min_depth);
  if (layer.expansion == 0)
    return layer.last && options.depth_multiplier >= 1 ? layer.depth : make_divisible(multiplied, 8, 8);
  return make_divisible(std::floor(multiplied), 8, 8);
}

/// In Keras whatever the product is, elsewhere a multiple of eight.
int64_t expanded_depth(int64_t depth, const MobilenetLayer& layer, const BackboneOptions& options) {
  const double product = static_cast<double>(depth) * layer.expansion;
  return options.keras ? static_cast<int64_t>(product) : make_divisible(product, 8, 8);
}

/// Of swish and of squeezing the original rounds every product, which is not built.
bool can_be_quantized(const MobilenetLayer& layer) {
  return !layer.squeeze && (layer.activation == Activation::kRelu || layer.activation == Activation::kRelu6);
}

class MobilenetChain final : public Backbone {
 public:
  MobilenetChain(const std::string& scope, const std::vector<MobilenetLayer>& layers, const BackboneOptions& options)
      : scope_(scope) {
    Hyperparams hyperparams = options.hyperparams ? *options.hyperparams : mobilenet_chain_hyperparams(options);
    // The slim network insists on its batch norm; a config decides about its constants only.
    const bool obeys = options.obeys_hyperparams();
    if (!hyperparams.batch_norm && !options.keras && !obeys)
      hyperparams.batch_norm = BatchNormOptions{.decay = 0.9997, .train = !options.freeze_batch_norm};
    if (!obeys) hyperparams.batch_norm->center = hyperparams.batch_norm->scale = true;
    hyperparams.use_bias = !options.keras;
    if (std::ranges::all_of(layers, can_be_quantized)) hyperparams.quantization = options.quantization;
    const auto activation_of = [&](const MobilenetLayer& spec) {
      return obeys ? options.hyperparams->activation : spec.activation;
    };
    int64_t depth = 3, convolutions = 0, residuals = 0;
    for (const MobilenetLayer& spec : layers) {
      const int64_t rounded = rounded_depth(spec, options), out = std::max(rounded, options.min_depth);
      const Padding padding = options.use_explicit_padding && spec.kernel > 1 ? Padding::kFixed : Padding::kSame;
      Layer layer;
      const auto numbered = [](const std::string& name, int64_t number) {
        return number == 0 ? name : fmt::format("{}_{}", name, number);
      };
      if (spec.expansion == 0) {
        Hyperparams activated = hyperparams;
        activated.activation = activation_of(spec);
        layer.convolution =
            register_module(numbered("Conv", convolutions++),
                            std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depth,
                                                                         .out_depth = out,
                                                                         .kernel = {spec.kernel, spec.kernel},
                                                                         .stride = spec.stride,
                                                                         .padding = padding},
                                                        activated));
      } else {
        InvertedResidualOptions block{.in_depth = depth,
                                      .expanded_depth = expanded_depth(depth, spec, options),
                                      .out_depth = out,
                                      .kernel = spec.kernel,
                                      .stride = spec.stride,
                                      .fused = spec.fused,
                                      .padding = padding,
                                      .activation = activation_of(spec),
                                      .residual = spec.residual && (!options.keras || depth == rounded)};
        const int64_t inner = std::max(block.expanded_depth, depth);
        if (spec.squeeze)
          block.squeeze_excite =
              SqueezeExciteOptions{.squeezed_depth = make_divisible(static_cast<double>(inner) / 4, 8, 8),
                                   .gate = SqueezeExciteOptions::Gate::kHardSigmoid};
        layer.residual = register_module(numbered("expanded_conv", residuals++),
                                         std::make_shared<InvertedResidual>(block, hyperparams));
      }
      depth = out;
      layers_.push_back(layer);
      const std::string name = fmt::format("layer_{}", layers_.size());
      if (options.last_endpoint == name || options.last_endpoint == name + "/expansion_output") break;
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context& context) override {
    Endpoints endpoints;
    FeatureMap x = images;
    for (size_t i = 0; i < layers_.size() && endpoints.size() < wanted.size(); ++i) {
      const std::string name = fmt::format("layer_{}", i + 1);
      if (layers_[i].convolution) {
        x = layers_[i].convolution->forward(x);
      } else {
        const std::string inner = name + "/expansion_output";
        x = layers_[i].residual->forward(x, context, wanted.count(inner) > 0 ? &endpoints[inner] : nullptr);
      }
      if (wanted.count(name) > 0) x = endpoints[name] = x.values();
    }
    return endpoints;
  }

  int64_t depth(const std::string& endpoint) const override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::string name = fmt::format("layer_{}", i + 1);
      if (endpoint == name)
        return layers_[i].convolution ? layers_[i].convolution->out_depth() : layers_[i].residual->out_depth();
      if (endpoint == name + "/expansion_output" && layers_[i].residual) return layers_[i].residual->expanded_depth();
    }
    throw std::out_of_range(scope_ + " has no endpoint " + endpoint);
  }

  std::string scope() const override { return scope_; }

 private:
  struct Layer {  // one of the two
    std::shared_ptr<ConvBlock> convolution;
    std::shared_ptr<InvertedResidual> residual;
  };
  std::string scope_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Backbone> make_mobilenet_chain(const std::string& scope, const std::vector<MobilenetLayer>& layers,
                                               const BackboneOptions& options) {
  return std::make_unique<MobilenetChain>(scope, layers, options);
}

}  // namespace osprey::nn
