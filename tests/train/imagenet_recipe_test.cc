// configs/resnet50_v1_224x224_imagenet.config does what its header says.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/config/pipeline.h"
#include "osprey/data/augmentation.h"
#include "osprey/optim/builder.h"

namespace osprey::train {
namespace {

class ImagenetRecipe : public ::testing::Test {
 protected:
  config::Pipeline pipeline_ = config::load_pipeline(OSPREY_SOURCE_DIR "/configs/resnet50_v1_224x224_imagenet.config");
  const proto::TrainConfig& train_ = pipeline_.message->train_config();
};

TEST_F(ImagenetRecipe, WarmsUpOverFiveEpochsAndDivides) {
  constexpr double kEpoch = 1281167.0 / 1024;
  const config::ConfigNode<proto::LearningRate> node(train_.optimizer().momentum_optimizer().learning_rate(), "",
                                                     nullptr);
  const auto rate = optim::build_learning_rate(node);
  const auto at_epoch = [&](double epoch) { return rate->at(static_cast<int64_t>(epoch * kEpoch)); };
  EXPECT_EQ(train_.batch_size(), 1024u);
  EXPECT_NEAR(static_cast<double>(train_.num_steps()), 90 * kEpoch, 1);
  EXPECT_EQ(at_epoch(0), 0);
  EXPECT_NEAR(at_epoch(2.5), 0.2, 1e-4) << "half of 0.1 x 1024 / 256";
  const std::pair<double, double> stages[] = {{6, 0.4},      {29.9, 0.4},    {30.1, 0.04},
                                              {60.1, 0.004}, {80.1, 0.0004}, {89.9, 0.0004}};
  for (const auto& [epoch, value] : stages) EXPECT_NEAR(at_epoch(epoch), value, value * 1e-5) << epoch;
}

TEST_F(ImagenetRecipe, CropsAndMirrorsPicturesThatKeepTheirLabel) {
  const auto augmenter = data::build_augmenter({train_, "train_config", nullptr});
  double smallest = 1, sum = 0;
  int mirrored = 0;
  constexpr int kPictures = 200;
  for (uint64_t i = 0; i < kPictures; ++i) {
    Example example;
    example.image = at::arange(100, at::kFloat).view({1, 100, 1}).expand({80, 100, 3}).to(at::kByte);  // columns count
    example.boxes = {{0, 0, 1, 1}};
    example.classes = {7};
    example.weights = {1};
    augmenter->apply(example, {.seed = 1, .example = i});
    ASSERT_EQ(example.classes, std::vector<int64_t>{7});
    EXPECT_EQ(example.boxes[0], (Box{0, 0, 1, 1})) << "whatever is left of the picture";
    const double share = static_cast<double>(example.image.size(0) * example.image.size(1)) / (80 * 100);
    smallest = std::min(smallest, share);
    sum += share / kPictures;
    const at::Tensor row = example.image[0].select(1, 0).to(at::kFloat);
    mirrored += row[0].item<float>() > row[-1].item<float>() ? 1 : 0;
  }
  EXPECT_GE(smallest, 0.07);
  EXPECT_LE(smallest, 0.2);
  EXPECT_GT(sum, 0.3);
  EXPECT_LT(sum, 0.8);
  EXPECT_NEAR(mirrored, kPictures / 2, 30);
}

}  // namespace
}  // namespace osprey::train
