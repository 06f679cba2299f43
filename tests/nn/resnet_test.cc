// What residual networks leave open: the place of the stride, the first value of the last scale, Keras's activation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "osprey/nn/backbone.h"
#include "support/golden.h"

namespace osprey::nn {
namespace {

using Place = ResidualOptions::StridePlace;

std::shared_ptr<Backbone> resnet(const std::string& name, const BackboneOptions& options) {
  const std::shared_ptr<Backbone> result = Backbone::Types::instance().build(name, options);
  initialize_model(*result, 1);
  result->eval();
  return result;
}

const BackboneOptions kNarrow{.depth_multiplier = 0.125, .min_depth = 8};

BackboneOptions narrow(Place place) {
  BackboneOptions result = kNarrow;
  result.residual.stride_place = place;
  return result;
}

const std::set<std::string> kLevels = {"block1", "block2", "block3", "block4"};

TEST(Resnet, HalvesWhereItIsTold) {
  const at::Tensor images = at::rand({1, 3, 64, 64});
  for (const std::string name : {"resnet_v1_18", "resnet_v1_50"}) {
    std::vector<at::Tensor> last;
    for (const Place place : {Place::kBlockEnd, Place::kFirstConvolution, Place::kFirst3x3Convolution}) {
      const Endpoints maps = resnet(name, narrow(place))->forward(images, kLevels, {});
      std::vector<int64_t> sides;
      for (const auto& [level, map] : maps) sides.push_back(map.size(2));
      EXPECT_THAT(sides, ::testing::ElementsAre(16, 8, 4, 2)) << name;
      last.push_back(maps.at("block4"));
    }
    // Every second value before or in a 1x1 convolution: the same. Where the first convolution is 3x3, two places are
    // one.
    const bool basic = name == "resnet_v1_18";
    EXPECT_EQ(at::allclose(last[0], last[1]), !basic) << name;
    EXPECT_EQ(at::allclose(last[1], last[2]), basic) << name;
  }
}

/// Whether the full maps are read, too, or only what goes on; sides odd and even.
TEST(Resnet, HasTheSameGradientsWhereverItHalves) {
  at::manual_seed(5);
  const at::Tensor images = at::rand({2, 3, 72, 56});
  for (const std::set<std::string>& wanted : {kLevels, std::set<std::string>{"block4"}}) {
    std::vector<std::vector<at::Tensor>> gradients;
    for (const Place place : {Place::kBlockEnd, Place::kFirstConvolution}) {
      const auto network = resnet("resnet_v1_50", narrow(place));
      at::Tensor sum = at::zeros({});
      for (const auto& [level, map] : network->forward(images, wanted, {})) sum = sum + map.square().sum();
      gradients.push_back(torch::autograd::grad({sum}, network->parameters(), {}, std::nullopt, false,
                                                /*allow_unused=*/true));
    }
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      ASSERT_EQ(gradients[0][i].defined(), gradients[1][i].defined()) << i;
      if (gradients[0][i].defined())
        osprey::testing::expect_close(gradients[0][i], gradients[1][i], 1e-4,
                                      1e-4 * gradients[1][i].abs().max().item<double>(), std::to_string(i));
    }
  }
}

TEST(Resnet, SlimAndKerasHaveTheirOwnPlace) {
  const at::Tensor images = at::rand({1, 3, 64, 64});
  const auto last = [&](BackboneOptions options) {
    return resnet("resnet_v1_50", options)->forward(images, kLevels, {}).at("block4");
  };
  EXPECT_TRUE(last(kNarrow).equal(last(narrow(Place::kBlockEnd))));
  BackboneOptions keras = kNarrow, keras_told = narrow(Place::kFirstConvolution);
  keras.keras = keras_told.keras = true;
  EXPECT_TRUE(last(keras).equal(last(keras_told)));
}

TEST(Resnet, UnitsMayStartAsIdentities) {
  BackboneOptions options = kNarrow;
  options.residual.zero_init_last_batch_norm = true;
  for (const std::string name : {"resnet_v1_18", "resnet_v1_50"}) {
    const auto network = resnet(name, options);
    int zeros = 0;
    for (const auto& item : network->named_parameters()) {
      if (!item.key().ends_with("gamma")) continue;
      const bool last = item.key().find(name == "resnet_v1_18" ? ".conv2." : ".conv3.") != std::string::npos;
      EXPECT_EQ(item.value().count_nonzero().item<int64_t>(), last ? 0 : item.value().numel()) << item.key();
      zeros += last;
    }
    EXPECT_EQ(zeros, name == "resnet_v1_18" ? 8 : 16);
  }
}

/// A network whose every batch norm adds ten.
at::Tensor raised(BackboneOptions options, Activation activation) {
  options.hyperparams = Hyperparams{};
  options.hyperparams->activation = activation;
  options.hyperparams->batch_norm = BatchNormOptions{.scale = true};
  const auto network = resnet("resnet_v1_50", options);
  at::NoGradGuard no_grad;
  for (const auto& item : network->named_parameters())
    if (item.key().ends_with("beta")) item.value().fill_(10);
  return network->forward(at::zeros({1, 3, 64, 64}), kLevels, {}).at("block1");
}

TEST(Resnet, KerasUnitsEndWithTheActivationOfTheConfig) {
  BackboneOptions keras = kNarrow;
  keras.keras = true;
  EXPECT_EQ(raised(keras, Activation::kRelu6).max().item<float>(), 6);
  EXPECT_GT(raised(kNarrow, Activation::kRelu6).max().item<float>(), 6);
}

}  // namespace
}  // namespace osprey::nn
