// MobileDet: backbones found by a search for detectors on four kinds of processor.
// Xiong et al., "MobileDets: Searching for Object Detection Architectures for Mobile Accelerators", CVPR 2021, section
// 3 and figures 5 to 8.
#include <fmt/format.h>

#include <cmath>

#include "osprey/nn/backbone.h"
#include "osprey/nn/inverted_residual.h"

namespace osprey::nn {
namespace {

/// Filters in steps of eight, halves rounded up.
int64_t scaled(int64_t filters, double multiplier) {
  return std::max<int64_t>(std::lround(static_cast<double>(filters) * multiplier / 8) * 8, 8);
}

struct LayerSpec {
  enum class Kind {
    kConvolution,
    kNoExpansion,  ///< depthwise, then projection
    kExpansion,    ///< expansion, depthwise, projection: the inverted bottleneck
    kFused,        ///< expansion by the full convolution, projection
    kTucker,       ///< 1x1 to fewer channels, full convolution, 1x1
  };
  Kind kind;
  int64_t depth;
  int64_t kernel = 3;
  int64_t expansion = 0;
  int64_t stride = 1;
  bool residual = true;
  double output_ratio = 0.25, input_ratio = 0.25;  ///< kTucker: inner depths by those outside
  std::string endpoint = "";                       ///< name of its output, where it has one
};

using Kind = LayerSpec::Kind;

/// What the tables below are made of.
LayerSpec first(int64_t depth) { return {Kind::kConvolution, depth, 3, 0, 2, false}; }
LayerSpec narrow(int64_t depth) { return {Kind::kNoExpansion, depth, 3, 0, 1, false}; }
LayerSpec ibn(int64_t depth, int64_t expansion, int64_t kernel = 3) {
  return {Kind::kExpansion, depth, kernel, expansion};
}
LayerSpec fused(int64_t depth, int64_t expansion, int64_t kernel = 3) {
  return {Kind::kFused, depth, kernel, expansion};
}
LayerSpec tucker(int64_t depth, double input_ratio, double output_ratio) {
  return {Kind::kTucker, depth, 3, 0, 1, true, output_ratio, input_ratio};
}
LayerSpec halving(LayerSpec layer) {
  layer.stride = 2;
  layer.residual = false;
  return layer;
}
LayerSpec plain(LayerSpec layer) {
  layer.residual = false;
  return layer;
}
LayerSpec named(const std::string& endpoint, LayerSpec layer) {
  layer.endpoint = endpoint;
  return layer;
}

/// Full convolution or bottleneck with a smaller depth inside.
class TuckerConv : public torch::nn::Module {
 public:
  TuckerConv(int64_t in_depth, int64_t out_depth, const LayerSpec& layer, const Hyperparams& hyperparams)
      : residual_(layer.residual) {
    const int64_t in = scaled(in_depth, layer.input_ratio), out = scaled(out_depth, layer.output_ratio);
    const auto add = [&](const char* name, const ConvBlockOptions& block) {
      blocks_.push_back(register_module(name, std::make_shared<ConvBlock>(block, hyperparams)));
    };
    add("Conv", {.in_depth = in_depth, .out_depth = in});
    add("Conv_1", {.in_depth = in, .out_depth = out, .kernel = {layer.kernel, layer.kernel}, .stride = layer.stride});
    add("Conv_2", {.in_depth = out, .out_depth = out_depth, .activate = false});
  }

  at::Tensor forward(const at::Tensor& x) {
    FeatureMap y = x;
    for (const auto& block : blocks_) y = block->forward(y);
    return residual_ ? y.values() + x : y.values();
  }

 private:
  bool residual_;
  std::vector<std::shared_ptr<ConvBlock>> blocks_;
};

class MobileDet final : public Backbone {
 public:
  /// swish  hard swish and squeeze-and-excitation, instead of relu6 and none
  MobileDet(const std::string& scope, bool swish, const std::vector<LayerSpec>& layers, const BackboneOptions& options)
      : scope_(scope), swish_(swish), hyperparams_(own_hyperparams(options.freeze_batch_norm)) {
    hyperparams_.activation = swish ? Activation::kHardSwish : Activation::kRelu6;
    int64_t depth = 3;
    for (const LayerSpec& layer : layers) {
      const int64_t out = scaled(layer.depth, options.depth_multiplier);
      Step step;
      step.endpoint = layer.endpoint;
      step.depth = out;
      if (layer.kind == Kind::kConvolution) {
        step.convolution =
            add_child(*this, scope_of("Conv"),
                      std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depth,
                                                                   .out_depth = out,
                                                                   .kernel = {layer.kernel, layer.kernel},
                                                                   .stride = layer.stride},
                                                  hyperparams_));
      } else if (layer.kind == Kind::kTucker) {
        step.tucker =
            add_child(*this, scope_of("TuckerConv"), std::make_shared<TuckerConv>(depth, out, layer, hyperparams_));
      } else {
        step.bottleneck = add_bottleneck(layer, depth, out);
      }
      steps_.push_back(step);
      depth = out;
      if (!layer.endpoint.empty() && layer.endpoint == options.last_endpoint) break;
    }
  }

  Endpoints forward(const at::Tensor& images, const std::set<std::string>& wanted, const Context& context) override {
    Endpoints endpoints;
    FeatureMap x = images;
    for (const Step& step : steps_) {
      if (endpoints.size() == wanted.size()) break;
      x = step.convolution  ? step.convolution->forward(x)
          : step.bottleneck ? step.bottleneck->forward(x, context)
                            : step.tucker->forward(x.values());
      if (wanted.count(step.endpoint) > 0) x = endpoints[step.endpoint] = x.values();
    }
    return endpoints;
  }

  int64_t depth(const std::string& endpoint) const override {
    for (const Step& step : steps_)
      if (step.endpoint == endpoint) return step.depth;
    throw std::out_of_range(scope_ + " has no endpoint " + endpoint);
  }

  std::string scope() const override { return scope_; }

 private:
  struct Step {
    std::shared_ptr<ConvBlock> convolution;  // one of the three
    std::shared_ptr<InvertedResidual> bottleneck;
    std::shared_ptr<TuckerConv> tucker;
    std::string endpoint;
    int64_t depth = 0;
  };

  static Hyperparams own_hyperparams(bool freeze_batch_norm) {
    Hyperparams result;
    result.regularizer = result.depthwise_regularizer = {Regularizer::Kind::kL2, 0.00004};
    result.initializer = Initializer::variance_scaling(2, Initializer::Mode::kFanIn, /*uniform=*/false);
    result.batch_norm = BatchNormOptions{.decay = 0.99, .epsilon = 0.01, .scale = true, .train = !freeze_batch_norm};
    return result;
  }

  /// Layers of a kind are numbered from the second on.
  std::string scope_of(const std::string& kind) {
    const int64_t number = counts_[kind]++;
    return number == 0 ? kind : fmt::format("{}_{}", kind, number);
  }

  std::shared_ptr<InvertedResidual> add_bottleneck(const LayerSpec& layer, int64_t depth, int64_t out) {
    const bool expands = layer.kind != Kind::kNoExpansion;
    InvertedResidualOptions options{.in_depth = depth,
                                    .expanded_depth = expands ? depth * layer.expansion : depth,
                                    .out_depth = out,
                                    .kernel = layer.kernel,
                                    .stride = layer.stride,
                                    .fused = layer.kind == Kind::kFused,
                                    .activation = hyperparams_.activation,
                                    .residual = layer.residual,
                                    .expand_scope = "Conv",
                                    .depthwise_scope = "SeparableConv2d",
                                    .squeeze_scope = "SqueezeExcite",
                                    .project_scope = expands ? "Conv_1" : "Conv"};
    if (swish_)
      options.squeeze_excite = SqueezeExciteOptions{.squeezed_depth = scaled(options.expanded_depth, 0.25),
                                                    .activation = hyperparams_.activation};
    const char* const kind = layer.kind == Kind::kFused ? "FusedConv" : expands ? "IBN" : "IBNNoExpansion";
    return add_child(*this, scope_of(kind), std::make_shared<InvertedResidual>(options, hyperparams_));
  }

  std::string scope_;
  bool swish_;
  Hyperparams hyperparams_;
  std::map<std::string, int64_t> counts_;
  std::vector<Step> steps_;
};

std::unique_ptr<Backbone> make_cpu(const BackboneOptions& options) {
  return std::make_unique<MobileDet>("MobileDetCPU", /*swish=*/true,
                                     std::vector<LayerSpec>{first(16),
                                                            named("C1", narrow(8)),
                                                            named("C2", halving(ibn(16, 4))),
                                                            halving(ibn(32, 8)),
                                                            ibn(32, 4),
                                                            ibn(32, 4),
                                                            named("C3", ibn(32, 4)),
                                                            halving(ibn(72, 8, 5)),
                                                            ibn(72, 8),
                                                            ibn(72, 4, 5),
                                                            ibn(72, 4),
                                                            plain(ibn(72, 8)),
                                                            ibn(72, 8),
                                                            ibn(72, 8),
                                                            named("C4", ibn(72, 8)),
                                                            halving(ibn(104, 8, 5)),
                                                            ibn(104, 4, 5),
                                                            ibn(104, 4, 5),
                                                            ibn(104, 4),
                                                            named("C5", plain(ibn(144, 8)))},
                                     options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobiledet_cpu", &make_cpu);

std::unique_ptr<Backbone> make_dsp(const BackboneOptions& options) {
  return std::make_unique<MobileDet>("MobileDetDSP", /*swish=*/false,
                                     std::vector<LayerSpec>{first(32),
                                                            named("C1", narrow(24)),
                                                            halving(fused(32, 4)),
                                                            fused(32, 4),
                                                            ibn(32, 4),
                                                            named("C2", tucker(32, 0.25, 0.75)),
                                                            halving(fused(64, 8)),
                                                            ibn(64, 4),
                                                            fused(64, 4),
                                                            named("C3", fused(64, 4)),
                                                            halving(fused(120, 8)),
                                                            ibn(120, 4),
                                                            ibn(120, 8),
                                                            ibn(120, 8),
                                                            plain(fused(144, 8)),
                                                            ibn(144, 8),
                                                            ibn(144, 8),
                                                            named("C4", ibn(144, 8)),
                                                            halving(ibn(160, 4)),
                                                            ibn(160, 4),
                                                            fused(160, 4),
                                                            tucker(160, 0.75, 0.75),
                                                            named("C5", plain(ibn(240, 8)))},
                                     options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobiledet_dsp", &make_dsp);

std::unique_ptr<Backbone> make_edgetpu(const BackboneOptions& options) {
  return std::make_unique<MobileDet>("MobileDetEdgeTPU", /*swish=*/false,
                                     std::vector<LayerSpec>{first(32),
                                                            named("C1", plain(tucker(16, 0.25, 0.75))),
                                                            halving(fused(16, 8)),
                                                            fused(16, 4),
                                                            fused(16, 8),
                                                            named("C2", fused(16, 4)),
                                                            halving(fused(40, 8, 5)),
                                                            fused(40, 4),
                                                            fused(40, 4),
                                                            named("C3", fused(40, 4)),
                                                            halving(ibn(72, 8)),
                                                            ibn(72, 8),
                                                            fused(72, 4),
                                                            fused(72, 4),
                                                            plain(ibn(96, 8, 5)),
                                                            ibn(96, 8, 5),
                                                            ibn(96, 8),
                                                            named("C4", ibn(96, 8)),
                                                            halving(ibn(120, 8, 5)),
                                                            ibn(120, 8),
                                                            ibn(120, 4, 5),
                                                            ibn(120, 8),
                                                            named("C5", plain(ibn(384, 8, 5)))},
                                     options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobiledet_edgetpu", &make_edgetpu);

std::unique_ptr<Backbone> make_gpu(const BackboneOptions& options) {
  return std::make_unique<MobileDet>("MobileDetGPU", /*swish=*/false,
                                     std::vector<LayerSpec>{first(32),
                                                            named("C1", plain(tucker(16, 0.25, 0.25))),
                                                            halving(fused(32, 8)),
                                                            tucker(32, 0.25, 0.25),
                                                            tucker(32, 0.25, 0.25),
                                                            named("C2", tucker(32, 0.25, 0.25)),
                                                            halving(fused(64, 8)),
                                                            fused(64, 8),
                                                            fused(64, 8),
                                                            named("C3", fused(64, 4)),
                                                            halving(fused(128, 8)),
                                                            fused(128, 4),
                                                            fused(128, 4),
                                                            fused(128, 4),
                                                            plain(fused(128, 8)),
                                                            fused(128, 8),
                                                            fused(128, 8),
                                                            named("C4", fused(128, 8)),
                                                            halving(fused(128, 4)),
                                                            fused(128, 4),
                                                            fused(128, 4),
                                                            fused(128, 4),
                                                            named("C5", plain(ibn(384, 8)))},
                                     options);
}
OSPREY_REGISTER_TYPE(Backbone, "mobiledet_gpu", &make_gpu);

}  // namespace
}  // namespace osprey::nn
