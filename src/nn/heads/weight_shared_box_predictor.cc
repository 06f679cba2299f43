// The predictor of RetinaNet: the same convolutions for every feature map, with batch norms of its own for each.
// Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, section 4.
#include <fmt/format.h>

#include <set>

#include "nn/heads/per_anchor.h"
#include "osprey/nn/box_predictor.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/dropout.h"
#include "osprey/nn/keras_names.h"
#include "osprey/nn/separable_convolution.h"
#include "osprey/protos/box_predictor.pb.h"

namespace osprey::nn {
namespace {

struct WeightSharedOptions {
  int64_t num_layers = 0, depth = 0;
  int64_t kernel = 3, code_size = 4;
  bool use_depthwise = false, share_tower = false, sigmoid = false;
  double keep_probability = 1;
  double class_bias = 0;
  std::optional<std::array<double, 2>> clip = std::nullopt;  // of the box encodings
};

struct Settings {
  Hyperparams projections, tower, heads;
  std::optional<Initializer> tower_depthwise;  ///< nothing: the tower's
};

using Convolution = std::shared_ptr<ConvolutionLayer>;

constexpr const char* kScope = "WeightSharedConvolutionalBoxPredictor/";

class WeightSharedBoxPredictor final : public BoxPredictor {
 public:
  WeightSharedBoxPredictor(const WeightSharedOptions& options, const BoxPredictorOptions& model,
                           const Settings& settings)
      : options_(options), num_class_slots_(model.num_class_slots) {
    const int64_t depth = add_projections(model.depths, settings.projections);
    const size_t maps = model.depths.size();
    towers_.push_back(
        build_tower(options.share_tower ? "PredictionTower" : "BoxPredictionTower", depth, maps, settings));
    if (!options.share_tower) towers_.push_back(build_tower("ClassPredictionTower", depth, maps, settings));
    const int64_t inner = options.num_layers > 0 ? options.depth : depth, anchors = model.anchors_per_location.at(0);
    box_ = build_head("BoxPredictor", inner, anchors * options.code_size, 0, maps, settings.heads);
    classes_ =
        build_head("ClassPredictor", inner, anchors * num_class_slots_, options.class_bias, maps, settings.heads);
    if (options.keep_probability < 1)
      dropout_ = add_child(*this, std::string(kScope) + "Dropout", std::make_shared<Dropout>(options.keep_probability));
  }

  Output forward(const std::vector<at::Tensor>& feature_maps, const Context& context) override {
    TORCH_CHECK(feature_maps.size() == projections_.size(), "expected ", projections_.size(), " feature maps, got ",
                feature_maps.size());
    std::vector<at::Tensor> maps;
    for (size_t i = 0; i < feature_maps.size(); ++i)
      maps.push_back(projections_[i] ? projections_[i]->forward(FeatureMap(feature_maps[i])).values()
                                     : feature_maps[i]);
    const std::vector<at::Tensor> for_boxes = run(towers_.front(), maps);
    std::vector<at::Tensor> for_classes = options_.share_tower ? for_boxes : run(towers_.back(), maps);
    if (dropout_)
      for (at::Tensor& map : for_classes) map = dropout_->forward(map, context);
    Output output{predict(*box_, for_boxes, options_.code_size), predict(*classes_, for_classes, num_class_slots_)};
    if (options_.clip) output.box_encodings = at::clamp(output.box_encodings, (*options_.clip)[0], (*options_.clip)[1]);
    // While training it would come on top of that of the loss.
    if (options_.sigmoid && !is_training()) output.class_logits = at::sigmoid(output.class_logits);
    return output;
  }

  int64_t box_code_size() const override { return options_.code_size; }

 private:
  /// One layer of a tower: a convolution for all maps, and a batch norm for each (none: the convolution has biases).
  struct TowerLayer {
    Convolution convolution;
    NormsOfMaps behind;
  };
  using Tower = std::vector<TowerLayer>;

  /// Unless all maps have the same depth, each is projected to the one that most have, of several the first; returns
  /// it.
  int64_t add_projections(const std::vector<int64_t>& depths, const Hyperparams& hyperparams) {
    int64_t usual = depths.at(0);
    for (int64_t depth : depths)
      if (std::count(depths.begin(), depths.end(), depth) > std::count(depths.begin(), depths.end(), usual))
        usual = depth;
    projections_.resize(depths.size());
    if (std::set<int64_t>(depths.begin(), depths.end()).size() == 1) return usual;
    for (size_t i = 0; i < depths.size(); ++i)
      projections_[i] = add_convolution(*this, fmt::format("{}ProjectionLayer/conv2d_{}", kScope, i), false,
                                        {.in_depth = depths[i], .out_depth = usual, .activate = false}, hyperparams);
    return usual;
  }

  Tower build_tower(const std::string& name, int64_t depth, size_t maps, const Settings& settings) {
    const Hyperparams& hyperparams = settings.tower;
    Tower tower;
    for (int64_t i = 0; i < options_.num_layers; ++i) {
      const std::string scope = fmt::format("{}{}/conv2d_{}", kScope, name, i);
      TowerLayer layer;
      layer.convolution = add_convolution(*this, scope, options_.use_depthwise,
                                          {.in_depth = depth,
                                           .out_depth = options_.depth,
                                           .kernel = {options_.kernel, options_.kernel},
                                           .normalize = false,
                                           .activate = false,
                                           .bias = !hyperparams.batch_norm,
                                           .maps = {maps, hyperparams.batch_norm.has_value()}},
                                          hyperparams, settings.tower_depthwise);
      for (size_t map = 0; hyperparams.batch_norm && map < maps; ++map)
        layer.behind.norms.push_back(add_child(*this, fmt::format("{}/BatchNorm/feature_{}", scope, map),
                                               std::make_shared<BatchNorm>(options_.depth, *hyperparams.batch_norm)));
      layer.behind.activation = hyperparams.activation;
      tower.push_back(std::move(layer));
      depth = options_.depth;
    }
    return tower;
  }

  Convolution build_head(const std::string& name, int64_t depth, int64_t out, double bias, size_t maps,
                         const Hyperparams& hyperparams) {
    return add_convolution(*this, std::string(kScope) + name, options_.use_depthwise,
                           {.in_depth = depth,
                            .out_depth = out,
                            .kernel = {options_.kernel, options_.kernel},
                            .normalize = false,
                            .activate = false,
                            .bias_init = bias,
                            .maps = {maps}},
                           hyperparams);
  }

  static std::vector<at::Tensor> run(const Tower& tower, const std::vector<at::Tensor>& given) {
    std::vector<FeatureMap> maps(given.begin(), given.end());
    for (const TowerLayer& layer : tower) maps = layer.convolution->forward_all(maps, layer.behind);
    std::vector<at::Tensor> results;
    for (const FeatureMap& map : maps) results.push_back(map.values());
    return results;
  }

  /// [B, anchors, size]
  static at::Tensor predict(ConvolutionLayer& head, const std::vector<at::Tensor>& maps, int64_t size) {
    std::vector<at::Tensor> results;
    for (const FeatureMap& map : head.forward_all({maps.begin(), maps.end()}, {}))
      results.push_back(per_anchor(map.values(), size));
    return at::cat(results, 1);
  }

  WeightSharedOptions options_;
  int64_t num_class_slots_;
  std::vector<Convolution> projections_;  ///< of each map; empty where all depths are the same
  std::vector<Tower> towers_;             ///< of boxes and of classes, or one for both
  Convolution box_, classes_;
  std::shared_ptr<Dropout> dropout_;
};

/// In slim, towers activate with ReLU6 whatever the config says, and everything else follows it. In Keras, separable
/// convolutions are made with Keras's own initializer and without a penalty, except where a field asks for the
/// config's.
Settings read_settings(const config::ConfigNode<proto::WeightSharedConvolutionalBoxPredictor>& cfg,
                       const BoxPredictorOptions& model) {
  Hyperparams given =
      read_hyperparams(cfg.child("conv_hyperparams", cfg->conv_hyperparams()), model.freeze_batch_norm, model.keras);
  given.quantization = model.quantization;
  Settings settings{given, given, given, {}};
  if (!model.keras) settings.tower.activation = Activation::kRelu6;
  // In Keras they are normalised by `batch_norm` alone.
  if (model.keras && given.batch_norm && given.batch_norm->synchronized)
    for (Hyperparams* part : {&settings.projections, &settings.tower}) part->batch_norm.reset();
  if (!model.keras || !cfg->use_depthwise()) return settings;
  const KerasSeparable tower = keras_separable(settings.tower, cfg->apply_conv_hyperparams_pointwise());
  settings.tower = tower.hyperparams;
  settings.tower_depthwise = tower.depthwise_initializer;
  settings.heads.depthwise_regularizer = given.regularizer;
  if (!cfg->apply_conv_hyperparams_to_heads()) {
    settings.heads.initializer = Initializer::variance_scaling(1, Initializer::Mode::kFanAverage, true);
    settings.heads.regularizer = settings.heads.depthwise_regularizer = {};
  }
  return settings;
}

std::unique_ptr<BoxPredictor> make_weight_shared_box_predictor(
    const config::ConfigNode<proto::WeightSharedConvolutionalBoxPredictor>& cfg, const BoxPredictorOptions& model) {
  if (cfg->num_layers_before_predictor() < 0) cfg.fail("num_layers_before_predictor", "must be >= 0");
  if (cfg->num_layers_before_predictor() > 0 && cfg->depth() < 1) cfg.fail("depth", "must be >= 1");
  if (cfg->kernel_size() < 1) cfg.fail("kernel_size", "must be >= 1");
  if (cfg->use_depthwise() && cfg->kernel_size() == 1) cfg.fail("kernel_size", "must be > 1 with use_depthwise");
  if (cfg->box_code_size() < 1) cfg.fail("box_code_size", "must be >= 1");
  const double keep = cfg->dropout_keep_probability();
  if (cfg->use_dropout() && !(keep > 0 && keep <= 1)) cfg.fail("dropout_keep_probability", "must be in (0, 1]");
  if (std::set<int64_t>(model.anchors_per_location.begin(), model.anchors_per_location.end()).size() != 1)
    cfg.fail("conv_hyperparams", "shares its convolutions, so every feature map must have the same number of anchors");
  WeightSharedOptions options{
      .num_layers = cfg->num_layers_before_predictor(),
      .depth = cfg->depth(),
      .kernel = cfg->kernel_size(),
      .code_size = cfg->box_code_size(),
      .use_depthwise = cfg->use_depthwise(),
      .share_tower = cfg->share_prediction_tower(),
      .sigmoid = cfg->score_converter() == proto::WeightSharedConvolutionalBoxPredictor::SIGMOID,
      .keep_probability = cfg->use_dropout() ? keep : 1,
      .class_bias = cfg->class_prediction_bias_init()};
  if (cfg->has_box_encodings_clip_range()) {
    const auto& range = cfg->box_encodings_clip_range();
    if (range.min() > range.max()) cfg.fail("box_encodings_clip_range.min", "must not exceed max");
    options.clip = {range.min(), range.max()};
  }
  return std::make_unique<WeightSharedBoxPredictor>(options, model, read_settings(cfg, model));
}
OSPREY_REGISTER(BoxPredictor, &make_weight_shared_box_predictor);

/// Keras puts the last convolutions into a scope of their head; towers are where they are in slim.
std::string keras_name_in_weight_shared_box_predictor(const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  std::string place = scope;
  std::replace(place.begin(), place.end(), '.', '/');
  if (scope == "BoxPredictor") place = "WeightSharedConvolutionalBoxHead/" + place;
  if (scope == "ClassPredictor") place = "WeightSharedConvolutionalClassHead/" + place;
  return std::string(kScope) + place + "/" + keras_leaf(leaf);
}
[[maybe_unused]] const bool named_weight_shared_box_predictor =
    add_keras_names("WeightSharedConvolutionalBoxPredictor.", &keras_name_in_weight_shared_box_predictor);

}  // namespace
}  // namespace osprey::nn
