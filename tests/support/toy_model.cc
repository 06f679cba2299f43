#include "support/toy_model.h"

#include <ATen/ATen.h>

#include "osprey/boxes/non_max_suppression.h"
#include "osprey/nn/regularizer.h"

namespace osprey::testing {
namespace {

constexpr int64_t kSide = 8, kAnchors = kSide * kSide, kDepth = 6, kBoxes = 3;

at::Tensor first_weights(at::IntArrayRef shape, double scale) {
  const int64_t count = c10::multiply_integers(shape);
  return (at::sin(at::arange(count, at::kFloat) * 12.9898) * scale).reshape(shape).contiguous();
}

class ToyNet : public torch::nn::Module {
 public:
  ToyNet(int64_t outputs) {
    conv1_weights = register_parameter("conv1_weights", first_weights({kDepth, 3, 3, 3}, 0.3));
    beta = register_parameter("conv1_beta", at::zeros({kDepth}));
    conv2_weights = register_parameter("conv2_weights", first_weights({outputs, kDepth, 1, 1}, 0.3));
    conv2_biases = register_parameter("conv2_biases", at::zeros({outputs}));
    moving_mean = register_buffer("moving_mean", at::zeros({kDepth}));
    moving_variance = register_buffer("moving_variance", at::ones({kDepth}));
  }
  at::Tensor conv1_weights, beta, conv2_weights, conv2_biases, moving_mean, moving_variance;
};

class ToyModel final : public models::DetectionModel {
 public:
  explicit ToyModel(const ToyOptions& options) : options_(options) {
    net_ = register_module("net", std::make_shared<ToyNet>(4 + options.num_classes + 1));
  }

  models::ModelInput preprocess(const Batch& batch) override {
    return {batch.images.to(at::kFloat) / 127.5 - 1, batch.true_shapes,
            is_training() ? batch.example_keys : at::Tensor()};
  }

  Predictions predict(const models::ModelInput& input) override {
    at::Tensor x = at::conv2d(input.images, net_->conv1_weights, {}, 1, 1).to(at::kFloat);
    at::Tensor mean = net_->moving_mean, variance = net_->moving_variance;
    if (is_training() && !options_.frozen_batch_norm) {
      mean = x.mean({0, 2, 3});
      variance = (x - mean.reshape({1, -1, 1, 1})).square().mean({0, 2, 3});
      pending_.push_back({mean.detach(), variance.detach()});
    }
    const auto channels = [](const at::Tensor& values) { return values.reshape({1, -1, 1, 1}); };
    x = at::relu((x - channels(mean)) * at::rsqrt(channels(variance) + 1e-3) + channels(net_->beta));
    if (options_.dropout > 0 && input.example_keys.defined()) {
      const at::Tensor place = at::arange(x[0].numel(), at::kDouble) * 78.233;
      const at::Tensor hash = at::sin(input.example_keys.to(at::kDouble).unsqueeze(1) * 12.9898 + place) * 43758.5453;
      x = x * ((hash - hash.floor()) >= options_.dropout).to(at::kFloat).reshape(x.sizes()) / (1 - options_.dropout);
    }
    const at::Tensor y =
        at::conv2d(x, net_->conv2_weights, net_->conv2_biases).permute({0, 2, 3, 1}).reshape({x.size(0), kAnchors, -1});
    Predictions result;
    result.box_encodings = y.slice(2, 0, 4);
    result.class_logits = y.slice(2, 4);
    const at::Tensor cell = (at::arange(kAnchors) / kSide).floor() / kSide,
                     column = (at::arange(kAnchors) % kSide).to(at::kFloat) / kSide;
    result.anchors = at::stack({cell.to(at::kFloat), column, cell + 1.0 / kSide, column + 1.0 / kSide}, 1);
    result.feature_map_shapes = {{kSide, kSide}};
    return result;
  }

  Losses loss(const Predictions& predictions, const Batch& batch) override {
    const at::Tensor centres = (predictions.anchors.slice(1, 0, 2) + predictions.anchors.slice(1, 2, 4)) / 2;  // [A, 2]
    const at::Tensor boxes = batch.boxes.unsqueeze(1);  // [B, 1, M, 4]
    const at::Tensor at_centre = centres.reshape({1, kAnchors, 1, 2});
    const at::Tensor inside = (at_centre >= boxes.slice(3, 0, 2)).all(3) & (at_centre < boxes.slice(3, 2, 4)).all(3) &
                              batch.valid.unsqueeze(1);
    const at::Tensor matched = inside.any(2).to(at::kFloat);  // [B, A]
    const at::Tensor index = inside.to(at::kLong).argmax(2);  // [B, A]
    const at::Tensor considered =
        (at::arange(kAnchors) % 7 != 0).to(at::kFloat) * batch.image_weights.unsqueeze(1);  // the others are ignored
    const at::Tensor weight = matched * considered;
    const at::Tensor classes = (batch.classes.gather(1, index) + 1) * matched.to(at::kLong);
    const at::Tensor target = at::gather(batch.boxes, 1, index.unsqueeze(2).expand({-1, -1, 4}));
    const at::Tensor logits = predictions.class_logits.to(at::kFloat);
    const at::Tensor cross_entropy = -at::log_softmax(logits, 2).gather(2, classes.unsqueeze(2)).squeeze(2);
    const at::Tensor distance = (predictions.box_encodings.to(at::kFloat) - target).abs().sum(2);
    Losses losses;
    losses.terms = {{"Loss/localization_loss", (distance * weight).sum()},
                    {"Loss/classification_loss", (cross_entropy * considered).sum()}};
    losses.normalizer = weight.sum();
    return losses;
  }

  Detections postprocess(const Predictions& predictions, const at::Tensor&) override {
    const int64_t batch = predictions.box_encodings.size(0);
    return {at::zeros({batch, 1, 4}), at::zeros({batch, 1}), at::zeros({batch, 1}, at::kLong),
            at::zeros({batch}, at::kLong)};
  }

  models::Candidates candidates(const Predictions& predictions) override {
    return {predictions.box_encodings, at::softmax(predictions.class_logits, 2).slice(2, 1)};
  }
  const boxes::NmsOptions& nms_options() const override { return nms_options_; }

  at::Tensor regularization_loss() override {
    const at::Tensor loss = nn::regularization_loss(regularized_weights());
    return loss.defined() ? loss : at::zeros({});
  }
  std::vector<nn::RegularizedWeight> regularized_weights() const override {
    const nn::Regularizer decay{nn::Regularizer::Kind::kL2, options_.weight_decay};
    return {{net_->conv1_weights, decay}, {net_->conv2_weights, decay}};
  }

  std::map<std::string, std::string> restore_map(models::RestoreType type) const override {
    std::map<std::string, std::string> result;
    for (const auto& [name, tensor] : models::variables(*this))
      if (type != models::RestoreType::kClassification) {
        result.emplace(name, name);
      } else if (name.find("conv2") == std::string::npos) {
        // A classifier has no scope of a detector around its layers.
        result.emplace(name, name);
        if (name.starts_with("net.")) result.emplace(name.substr(4), name);
      }
    return result;
  }

  void commit_statistics(const at::Tensor& proceed) override {
    if (proceed.defined() && !proceed.item<bool>()) pending_.clear();
    if (pending_.empty()) return;
    at::Tensor mean = at::zeros({kDepth}), variance = at::zeros({kDepth});
    for (const auto& [m, v] : pending_) mean += m, variance += v;
    const double share = 0.1, count = static_cast<double>(pending_.size());
    at::NoGradGuard no_gradients;
    net_->moving_mean.mul_(1 - share).add_(mean, share / count);
    net_->moving_variance.mul_(1 - share).add_(variance, share / count);
    pending_.clear();
  }
  void discard_statistics() override { pending_.clear(); }

  int64_t num_classes() const override { return options_.num_classes; }
  std::array<int64_t, 2> input_size() const override { return {kSide, kSide}; }

 private:
  ToyOptions options_;
  boxes::NmsOptions nms_options_;
  std::shared_ptr<ToyNet> net_;
  std::vector<std::pair<at::Tensor, at::Tensor>> pending_;
};

class ToySource final : public data::BatchSource {
 public:
  ToySource(int64_t batch_size, uint64_t seed, int64_t finite)
      : batch_size_(batch_size), seed_(seed), finite_(finite) {}

  std::optional<Batch> next() override {
    if (finite_ > 0 && index_ >= finite_) return std::nullopt;
    const int64_t first = index_++ * batch_size_, b = batch_size_;
    const at::Tensor keys = at::arange(first, first + b, at::kLong);
    const auto draw = [&](int64_t salt, at::IntArrayRef shape) {
      const int64_t per_example = c10::multiply_integers(shape) / b;
      const at::Tensor hash =
          at::sin((keys + static_cast<int64_t>(seed_) * 7919).to(at::kDouble).unsqueeze(1) * 12.9898 +
                  (at::arange(per_example, at::kDouble) + 1000 * salt) * 78.233) *
          43758.5453;
      return (hash - hash.floor()).reshape(shape).to(at::kFloat);
    };
    Batch batch;
    at::Tensor images = draw(1, {b, 3, kSide, kSide}) * 100;
    const at::Tensor corner = (draw(2, {b, kBoxes, 2}) * 4).floor() / 8;
    batch.boxes = at::cat({corner, corner + 0.5}, 2);
    batch.classes = (draw(3, {b, kBoxes}) * 2).floor().to(at::kLong);
    batch.valid = at::ones({b, kBoxes}, at::kBool);
    batch.valid.select(1, kBoxes - 1).fill_(false);
    batch.valid.select(1, 1).copy_(draw(4, {b}) > 0.5);
    batch.boxes.masked_fill_(~batch.valid.unsqueeze(2), 0);
    batch.classes.masked_fill_(~batch.valid, 0);
    for (int64_t i = 0; i < b; ++i) {
      const auto top = static_cast<int64_t>(batch.boxes[i][0][0].item<float>() * kSide),
                 left = static_cast<int64_t>(batch.boxes[i][0][1].item<float>() * kSide);
      images[i][batch.classes[i][0].item<int64_t>()].slice(0, top, top + 4).slice(1, left, left + 4).fill_(255);
      batch.ids.push_back("toy-" + std::to_string(first + i));
    }
    batch.images = images.to(at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
    batch.true_shapes = batch.original_sizes = at::full({b, 2}, kSide, at::kLong);
    batch.weights = batch.valid.to(at::kFloat);
    batch.is_crowd = batch.difficult = batch.group_of = at::zeros({b, kBoxes}, at::kBool);
    batch.area = at::zeros({b, kBoxes});
    batch.image_weights = at::ones({b});
    batch.example_keys = keys;
    return batch;
  }
  void seek(int64_t index) override { index_ = index; }
  int64_t position() const override { return index_; }
  int64_t num_examples() const override { return 64; }

 private:
  int64_t batch_size_, index_ = 0;
  uint64_t seed_;
  int64_t finite_;
};

}  // namespace

std::shared_ptr<models::DetectionModel> make_toy_model(const ToyOptions& options) {
  return std::make_shared<ToyModel>(options);
}

std::unique_ptr<data::BatchSource> make_toy_source(int64_t batch_size, uint64_t seed, int64_t finite_batches) {
  return std::make_unique<ToySource>(batch_size, seed, finite_batches);
}

}  // namespace osprey::testing
