#include "osprey/nn/hyperparams.h"

#include "osprey/protos/hyperparams.pb.h"

namespace osprey::nn {
namespace {

using config::ConfigNode;

/// A weight of 0 penalises nothing: slim makes no loss of it, Keras one of 0.
Regularizer read_regularizer(const ConfigNode<proto::Regularizer>& node, bool keras) {
  Regularizer result;
  if (node->has_l1_regularizer()) {
    result = {Regularizer::Kind::kL1, node->l1_regularizer().weight()};
    if (result.weight < 0) node.fail("l1_regularizer.weight", "must be >= 0");
  } else if (node->has_l2_regularizer()) {
    result = {Regularizer::Kind::kL2, node->l2_regularizer().weight()};
    if (result.weight < 0) node.fail("l2_regularizer.weight", "must be >= 0");
  }
  return result.weight > 0 || keras ? result : Regularizer{};
}

/// The initializers that Keras knows by name.
Initializer keras_initializer(const ConfigNode<proto::Initializer>& node) {
  using Mode = Initializer::Mode;
  static const std::map<std::string, Initializer> by_name = {
      {"zeros", Initializer::constant(0)},
      {"ones", Initializer::constant(1)},
      {"random_normal", Initializer::normal(0, 0.05)},
      {"random_uniform", {Initializer::Kind::kUniform, 0, 0.05}},
      {"truncated_normal", Initializer::truncated_normal(0, 0.05)},
      {"glorot_normal", Initializer::variance_scaling(1, Mode::kFanAverage, false)},
      {"glorot_uniform", Initializer::variance_scaling(1, Mode::kFanAverage, true)},
      {"he_normal", Initializer::variance_scaling(2, Mode::kFanIn, false)},
      {"he_uniform", Initializer::variance_scaling(2, Mode::kFanIn, true)},
      {"lecun_normal", Initializer::variance_scaling(1, Mode::kFanIn, false)},
      {"lecun_uniform", Initializer::variance_scaling(1, Mode::kFanIn, true)},
  };
  const auto found = by_name.find(node->keras_initializer_by_name());
  if (found == by_name.end()) {
    std::string names;
    for (const auto& entry : by_name) names += (names.empty() ? "" : ", ") + entry.first;
    node.fail("keras_initializer_by_name", "must be one of " + names);
  }
  return found->second;
}

Initializer read_initializer(const ConfigNode<proto::Initializer>& node) {
  switch (node->initializer_oneof_case()) {
    case proto::Initializer::kTruncatedNormalInitializer: {
      const auto& message = node->truncated_normal_initializer();
      if (message.stddev() < 0) node.fail("truncated_normal_initializer.stddev", "must be >= 0");
      return Initializer::truncated_normal(message.mean(), message.stddev());
    }
    case proto::Initializer::kRandomNormalInitializer: {
      const auto& message = node->random_normal_initializer();
      if (message.stddev() < 0) node.fail("random_normal_initializer.stddev", "must be >= 0");
      return Initializer::normal(message.mean(), message.stddev());
    }
    case proto::Initializer::kVarianceScalingInitializer: {
      const auto& message = node->variance_scaling_initializer();
      if (message.factor() < 0) node.fail("variance_scaling_initializer.factor", "must be >= 0");
      using Modes = proto::VarianceScalingInitializer;
      const auto mode = message.mode() == Modes::FAN_IN    ? Initializer::Mode::kFanIn
                        : message.mode() == Modes::FAN_OUT ? Initializer::Mode::kFanOut
                                                           : Initializer::Mode::kFanAverage;
      return Initializer::variance_scaling(message.factor(), mode, message.uniform());
    }
    case proto::Initializer::kKerasInitializerByName:
      return keras_initializer(node);
    case proto::Initializer::INITIALIZER_ONEOF_NOT_SET:
      break;
  }
  return Initializer::variance_scaling(1, Initializer::Mode::kFanAverage,
                                       true);  // Glorot uniform, TensorFlow's default
}

Activation read_activation(proto::Hyperparams::Activation activation) {
  switch (activation) {
    case proto::Hyperparams::RELU:
      return Activation::kRelu;
    case proto::Hyperparams::RELU_6:
      return Activation::kRelu6;
    case proto::Hyperparams::SWISH:
      return Activation::kSwish;
    case proto::Hyperparams::NONE:
      break;
  }
  return Activation::kNone;
}

BatchNormOptions read_batch_norm(const ConfigNode<proto::BatchNorm>& node, bool synchronized, bool freeze, bool keras) {
  if (!(node->decay() >= 0 && node->decay() <= 1)) node.fail("decay", "must be in [0, 1]");
  if (!(node->epsilon() > 0)) node.fail("epsilon", "must be > 0");
  return {.decay = node->decay(),
          .epsilon = node->epsilon(),
          .center = node->center(),
          .scale = node->scale(),
          .train = (keras || node->train()) && !freeze,
          .synchronized = synchronized,
          .keep_biased = keras && synchronized};
}

}  // namespace

Hyperparams read_hyperparams(const ConfigNode<proto::Hyperparams>& node, bool freeze_batch_norm, bool keras) {
  if (node->op() != proto::Hyperparams::CONV) node.fail("op", "must be CONV for a convolution");
  Hyperparams result;
  result.regularizer = read_regularizer(node.child("regularizer", node->regularizer()), keras);
  result.initializer = read_initializer(node.child("initializer", node->initializer()));
  if (keras || !node->has_regularize_depthwise() || node->regularize_depthwise())
    result.depthwise_regularizer = result.regularizer;
  result.activation = read_activation(node->activation());
  if (!keras && node->force_use_bias()) node.fail("force_use_bias", "is for the Keras types, those with _keras");
  result.force_use_bias = node->force_use_bias();
  result.batch_norm = std::nullopt;
  if (node->has_group_norm()) node.unsupported("group_norm");
  if (node->has_batch_norm())
    result.batch_norm = read_batch_norm(node.child("batch_norm", node->batch_norm()), false, freeze_batch_norm, keras);
  if (node->has_sync_batch_norm())
    result.batch_norm =
        read_batch_norm(node.child("sync_batch_norm", node->sync_batch_norm()), true, freeze_batch_norm, keras);
  return result;
}

}  // namespace osprey::nn
