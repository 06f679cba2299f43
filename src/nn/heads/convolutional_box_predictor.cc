// The predictor of SSD: each feature map has convolutions of its own for boxes and classes.
// Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016, section 2.1; with use_depthwise, SSDLite: Sandler et
// al., "MobileNetV2", CVPR 2018, section 6.2.
#include <fmt/format.h>

#include "nn/heads/per_anchor.h"
#include "osprey/nn/box_predictor.h"
#include "osprey/nn/convolution.h"
#include "osprey/nn/dropout.h"
#include "osprey/nn/keras_names.h"
#include "osprey/protos/box_predictor.pb.h"

namespace osprey::nn {
namespace {

struct ConvolutionalOptions {
  int64_t min_depth = 0, max_depth = 0, num_layers = 0;
  int64_t kernel = 1, code_size = 4;
  bool use_depthwise = false, sigmoid = false;
  double keep_probability = 1;
  double class_bias = 0;
  std::optional<std::array<double, 2>> clip = std::nullopt;  // of the box encodings
};

/// Where the layers of one feature map live, with the last slash.
struct Scopes {
  std::string shared, box, classes, dropout;
};

Scopes scopes_of(size_t map, size_t num_maps, bool keras) {
  if (keras)
    return {fmt::format("BoxPredictor/SharedConvolutions_{}/", map),
            fmt::format("BoxPredictor/ConvolutionalBoxHead_{}/", map),
            fmt::format("BoxPredictor/ConvolutionalClassHead_{}/", map), fmt::format("BoxPredictor/{}/", map)};
  // With a single feature map the original opens no scope of its own.
  const std::string scope = num_maps > 1 ? fmt::format("BoxPredictor_{}/", map) : "";
  return {scope, scope, scope, scope};
}

/// The layers of one feature map.
struct Branch {
  std::vector<std::shared_ptr<ConvBlock>> shared, box, classes;
  std::shared_ptr<Dropout> dropout;
};

at::Tensor run(const std::vector<std::shared_ptr<ConvBlock>>& blocks, at::Tensor x) {
  for (const auto& block : blocks) x = block->forward(x);
  return x;
}

class ConvolutionalBoxPredictor final : public BoxPredictor {
 public:
  ConvolutionalBoxPredictor(const ConvolutionalOptions& options, const BoxPredictorOptions& model,
                            const Hyperparams& hyperparams)
      : options_(options), num_class_slots_(model.num_class_slots) {
    Hyperparams depthwise = hyperparams;
    if (model.keras) {  // the original hands these to arguments that depthwise layers do not look at
      depthwise.initializer = Initializer::variance_scaling(1, Initializer::Mode::kFanAverage, /*uniform=*/true);
      depthwise.depthwise_regularizer = {};
    }
    for (size_t i = 0; i < model.depths.size(); ++i)
      branches_.push_back(build_branch(scopes_of(i, model.depths.size(), model.keras), model.depths[i],
                                       model.anchors_per_location[i], hyperparams, depthwise));
  }

  Output forward(const std::vector<at::Tensor>& feature_maps, const Context& context) override {
    TORCH_CHECK(feature_maps.size() == branches_.size(), "expected ", branches_.size(), " feature maps, got ",
                feature_maps.size());
    std::vector<at::Tensor> boxes, classes;
    for (size_t i = 0; i < branches_.size(); ++i) {
      const Branch& branch = branches_[i];
      const at::Tensor x = run(branch.shared, feature_maps[i]);
      boxes.push_back(per_anchor(run(branch.box, x), options_.code_size));
      classes.push_back(
          per_anchor(run(branch.classes, branch.dropout ? branch.dropout->forward(x, context) : x), num_class_slots_));
    }
    Output output{at::cat(boxes, 1), at::cat(classes, 1)};
    if (options_.clip) output.box_encodings = at::clamp(output.box_encodings, (*options_.clip)[0], (*options_.clip)[1]);
    if (options_.sigmoid) output.class_logits = at::sigmoid(output.class_logits);
    return output;
  }

  int64_t box_code_size() const override { return options_.code_size; }

 private:
  Branch build_branch(const Scopes& scopes, int64_t depth, int64_t anchors, const Hyperparams& hyperparams,
                      const Hyperparams& depthwise) {
    Branch branch;
    const int64_t inner = std::max(std::min(depth, options_.max_depth), options_.min_depth);
    for (int64_t i = 0; inner > 0 && i < options_.num_layers; ++i) {
      branch.shared.push_back(
          add_child(*this, fmt::format("{}Conv2d_{}_1x1_{}", scopes.shared, i, inner),
                    std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depth, .out_depth = inner}, hyperparams)));
      depth = inner;
    }
    branch.box =
        build_head(scopes.box + "BoxEncodingPredictor", depth, anchors * options_.code_size, 0, hyperparams, depthwise);
    branch.classes = build_head(scopes.classes + "ClassPredictor", depth, anchors * num_class_slots_,
                                options_.class_bias, hyperparams, depthwise);
    if (options_.keep_probability < 1)
      branch.dropout =
          add_child(*this, scopes.dropout + "Dropout", std::make_shared<Dropout>(options_.keep_probability));
    return branch;
  }

  std::vector<std::shared_ptr<ConvBlock>> build_head(const std::string& scope, int64_t depth, int64_t out, double bias,
                                                     const Hyperparams& hyperparams, const Hyperparams& depthwise) {
    std::vector<std::shared_ptr<ConvBlock>> blocks;
    const std::array<int64_t, 2> kernel = {options_.kernel, options_.kernel};
    if (options_.use_depthwise)
      blocks.push_back(
          add_child(*this, scope + "_depthwise",
                    std::make_shared<ConvBlock>(
                        ConvBlockOptions{.in_depth = depth, .kernel = kernel, .depthwise = true}, depthwise)));
    ConvBlockOptions last{
        .in_depth = depth, .out_depth = out, .normalize = false, .activate = false, .bias_init = bias};
    if (!options_.use_depthwise) last.kernel = kernel;
    blocks.push_back(add_child(*this, scope, std::make_shared<ConvBlock>(last, hyperparams)));
    return blocks;
  }

  ConvolutionalOptions options_;
  int64_t num_class_slots_;
  std::vector<Branch> branches_;
};

std::unique_ptr<BoxPredictor> make_convolutional_box_predictor(
    const config::ConfigNode<proto::ConvolutionalBoxPredictor>& cfg, const BoxPredictorOptions& model) {
  if (cfg->min_depth() < 0) cfg.fail("min_depth", "must be >= 0");
  if (cfg->max_depth() < 0) cfg.fail("max_depth", "must be >= 0");
  if (cfg->min_depth() > cfg->max_depth()) cfg.fail("min_depth", "must not exceed max_depth");
  if (cfg->num_layers_before_predictor() < 0) cfg.fail("num_layers_before_predictor", "must be >= 0");
  if (cfg->kernel_size() < 1) cfg.fail("kernel_size", "must be >= 1");
  if (cfg->box_code_size() < 1) cfg.fail("box_code_size", "must be >= 1");
  const double keep = cfg->dropout_keep_probability();
  if (cfg->use_dropout() && !(keep > 0 && keep <= 1)) cfg.fail("dropout_keep_probability", "must be in (0, 1]");
  ConvolutionalOptions options{.min_depth = cfg->min_depth(),
                               .max_depth = cfg->max_depth(),
                               .num_layers = cfg->num_layers_before_predictor(),
                               .kernel = cfg->kernel_size(),
                               .code_size = cfg->box_code_size(),
                               .use_depthwise = cfg->use_depthwise(),
                               .sigmoid = cfg->apply_sigmoid_to_scores() && !model.keras,  // Keras's does not know it
                               .keep_probability = cfg->use_dropout() ? keep : 1,
                               .class_bias = cfg->class_prediction_bias_init()};
  if (cfg->has_box_encodings_clip_range()) {
    const auto& range = cfg->box_encodings_clip_range();
    if (range.min() > range.max()) cfg.fail("box_encodings_clip_range.min", "must not exceed max");
    options.clip = {range.min(), range.max()};
  }
  Hyperparams hyperparams =
      read_hyperparams(cfg.child("conv_hyperparams", cfg->conv_hyperparams()), model.freeze_batch_norm, model.keras);
  hyperparams.quantization = model.quantization;
  const bool without_offset = hyperparams.batch_norm && !hyperparams.batch_norm->center;
  // Keras's layers also have biases where the batch norm has no offset
  hyperparams.force_use_bias = model.keras && (hyperparams.force_use_bias || without_offset);
  return std::make_unique<ConvolutionalBoxPredictor>(options, model, hyperparams);
}
OSPREY_REGISTER(BoxPredictor, &make_convolutional_box_predictor);

/// The scopes are those of Keras already; a batch norm has the name of its convolution and a suffix.
std::string keras_name_in_convolutional_box_predictor(const std::string& name) {
  const auto [scope, leaf] = split_name(name);
  const bool normalises = scope.ends_with(".BatchNorm");
  std::string place = "BoxPredictor/" + (normalises ? scope.substr(0, scope.rfind('.')) : scope);
  std::replace(place.begin(), place.end(), '.', '/');
  if (!normalises) return place + "/" + keras_leaf(leaf);
  return place + (scope.starts_with("SharedConvolutions") ? "_norm/" : "_batchnorm/") + leaf;
}
[[maybe_unused]] const bool named_convolutional_box_predictor =
    add_keras_names("BoxPredictor.", &keras_name_in_convolutional_box_predictor);

}  // namespace
}  // namespace osprey::nn
