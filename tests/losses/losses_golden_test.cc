#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/config/parse.h"
#include "osprey/losses/builder.h"
#include "osprey/protos/losses.pb.h"
#include "support/golden.h"

namespace osprey::losses {
namespace {

using testing::expect_close;
using testing::golden_files;
using testing::tensor;

/// Whether a config text like "weighted_l2{}" names a member of M's oneof.
template <class M>
bool chooses(const std::string& text) {
  return M::descriptor()->FindFieldByName(text.substr(0, text.find_first_of("{ "))) != nullptr;
}

void check_case(const nlohmann::json& c) {
  const std::string name = c.at("name");
  // The case about masked images names no loss; its own name does.
  const std::string config = c.contains("config") ? c.at("config").get<std::string>() : "weighted_sigmoid {}";
  at::Tensor predictions = tensor(c.at("pred")).requires_grad_(true), weights = tensor(c.at("weights"));
  const at::Tensor targets = tensor(c.at("target"));
  if (c.contains("losses_mask")) weights = weights * tensor(c.at("losses_mask")).view({-1, 1, 1});

  at::Tensor loss;
  if (chooses<proto::LocalizationLoss>(config)) {
    loss = (*build_localization_loss(config::parse<proto::LocalizationLoss>(config).node()))(predictions, targets,
                                                                                             weights);
  } else if (chooses<proto::ClassificationLoss>(config)) {
    loss = (*build_classification_loss(config::parse<proto::ClassificationLoss>(config).node()))(predictions, targets,
                                                                                                 weights);
  } else {
    FAIL() << name << ": no loss is chosen by " << config;
  }
  expect_close(loss, tensor(c.at("loss")), 1e-5, 1e-7, name + " loss");
  if (!c.contains("grad_of_sum_wrt_pred")) return;
  loss.sum().backward();
  // The absolute part is float32's rounding of terms of order one that cancel (sigmoid(x) - z).
  expect_close(predictions.grad(), tensor(c.at("grad_of_sum_wrt_pred")), 1e-5, 1e-6, name + " gradient");
}

TEST(Losses, ValuesAndGradientsAreThoseOfTheOriginal) {
  int cases = 0;
  for (const auto& path : golden_files("losses.json")) {
    const auto file = testing::read_json(path);
    for (const auto& c : file.at("losses")) {
      SCOPED_TRACE(c.at("name").get<std::string>());
      check_case(c);
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

TEST(HardExampleMiner, SelectsWhatTheOriginalSelects) {
  int cases = 0;
  for (const auto& file : golden_files("losses.json")) {
    const auto data = testing::read_json(file).at("hard_example_miner");
    const at::Tensor localization = tensor(data.at("location_losses")), classification = tensor(data.at("cls_losses"));
    const at::Tensor boxes = tensor(data.at("decoded_boxes")), match = tensor(data.at("match"), at::kLong);
    for (const auto& c : data.at("cases")) {
      SCOPED_TRACE(c.at("name").get<std::string>());
      const auto config = config::parse<proto::HardExampleMiner>(c.at("config").get<std::string>());
      const auto miner =
          build_hard_example_miner(config.node(), c.at("classification_weight"), c.at("localization_weight"));
      const MinedLosses mined = (*miner)(localization, classification, boxes, match);
      EXPECT_EQ(mined.selected, c.at("selected_indices").get<std::vector<std::vector<int64_t>>>());
      expect_close(mined.localization, tensor(c.at("mined_location_loss")), 1e-5, 0, "mined localization loss");
      expect_close(mined.classification, tensor(c.at("mined_cls_loss")), 1e-5, 0, "mined classification loss");
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace osprey::losses
