// Every model of golden/models that is built has the original's variables, shapes, feature maps, anchors and penalties.
#include "models/golden_model.h"
#include "osprey/models/summary.h"
#include "osprey/nn/batch_norm.h"

namespace osprey {
namespace {

using namespace osprey::testing;

/// The scope of the penalised variable in the name of a penalty's operation: without the repeated scope and the leaf.
std::string penalised_scope(const std::string& operation) {
  std::vector<std::string> parts;
  std::stringstream stream(operation.substr(0, operation.find("/Regularizer")));
  for (std::string part; std::getline(stream, part, '/');)
    if (part != "top_down" && (parts.empty() || parts.back() != part))
      parts.push_back(part);  // a scope of operations only
  parts.pop_back();
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : "/") + part;
  return result;
}

std::string scope_of(const std::string& name) { return name.substr(0, name.find_last_of('/')); }

void expect_variables(const models::DetectionModel& model, const nlohmann::json& golden) {
  std::map<std::string, std::pair<std::vector<int64_t>, bool>> ours, theirs;
  for (const auto& [name, tensor] : compared_variables(model))
    ours[original_name(golden, name)] = {nn::tf_shape(name, tensor.sizes()), tensor.requires_grad()};
  for (const auto& variable : golden.at("variables"))
    theirs[variable.at(0)] = {variable.at(1).get<std::vector<int64_t>>(), variable.at(2).get<int>() != 0};
  for (const auto& [name, value] : theirs) {
    const auto found = ours.find(name);
    if (is_unused(name)) continue;
    if (found == ours.end()) {
      ADD_FAILURE() << "missing " << name;
    } else {
      EXPECT_EQ(found->second, value) << name;
    }
  }
  for (const auto& [name, value] : ours) EXPECT_EQ(theirs.count(name), 1u) << "not in the original: " << name;
}

void expect_penalties(const models::DetectionModel& model, const nlohmann::json& golden) {
  const auto weights = nn::regularized_weights(model);
  int64_t unused = 0;  // what is penalised of it: kernels that are not depthwise, and biases
  for (const auto& variable : golden.at("variables")) {
    const std::string name = variable.at(0);
    unused += is_unused(name) && (name.ends_with("/kernel") || name.ends_with("/bias"));
  }
  EXPECT_EQ(static_cast<int64_t>(weights.size()), golden.at("num_regularization_losses").get<int64_t>() - unused);
  if (!golden.contains("regularization_loss_ops")) return;
  std::multiset<std::string> ours, theirs;
  for (const auto& [name, tensor] : models::variables(model))
    for (const auto& item : weights)
      if (item.weight.is_same(tensor)) ours.insert(scope_of(nn::tf_name(name)));
  for (const auto& operation : golden.at("regularization_loss_ops")) theirs.insert(penalised_scope(operation));
  EXPECT_EQ(ours, theirs);
}

void expect_statistics(const models::DetectionModel& model, const nlohmann::json& golden) {
  // With in-place updates the original runs only some of them as operations of their own; Keras models have none.
  if (golden.at("inplace_batchnorm_update").get<bool>() || golden.at("runtime") == "TF2") return;
  int64_t updates = 0;
  for (const auto& module : model.modules())
    if (const auto* batch_norm = dynamic_cast<const nn::BatchNorm*>(module.get()))
      updates += 2 * batch_norm->uses_batch_statistics();
  EXPECT_EQ(
      updates,
      golden.at("is_training_true_differs_in").value("num_update_ops", golden.at("num_update_ops").get<int64_t>()));
}

struct Count {
  int64_t trainable = 0, total = 0;
};

Count unused_parameters(const nlohmann::json& golden) {
  Count result;
  for (const auto& variable : golden.at("variables")) {
    if (!is_unused(variable.at(0))) continue;
    int64_t size = 1;
    for (const int64_t side : variable.at(1)) size *= side;
    result.total += size;
    result.trainable += variable.at(2).get<int>() != 0 ? size : 0;
  }
  return result;
}

TEST(ModelStructure, EqualsTheOriginal) {
  for_each_model(model_files(""), false, [](const nlohmann::json& golden, const config::Pipeline& pipeline) {
    const models::Summary summary = models::summarize_model(pipeline.root());
    const auto [unused_trainable, unused] = unused_parameters(golden);
    EXPECT_EQ(summary.trainable_parameters, golden.at("trainable_params").get<int64_t>() - unused_trainable);
    EXPECT_EQ(summary.total_parameters, golden.at("total_params").get<int64_t>() - unused);
    EXPECT_EQ(summary.num_anchors, golden.at("num_anchors").get<int64_t>());
    const auto model = models::build_model(pipeline.root(), {.seed = 0, .device = at::kMeta});
    EXPECT_EQ(model->num_classes(), golden.at("num_classes").get<int64_t>());
    EXPECT_EQ(nlohmann::json(model->input_size()), golden.at("input_hw"));
    EXPECT_EQ(nlohmann::json(summary.feature_maps), golden.at("feature_maps"));
    EXPECT_EQ(nlohmann::json(summary.box_encodings_shape), golden.at("outputs").at("box_encodings"));
    EXPECT_EQ(nlohmann::json(summary.class_predictions_shape),
              golden.at("outputs").at("class_predictions_with_background"));
    expect_variables(*model, golden);
    expect_penalties(*model, golden);
    expect_statistics(*model, golden);
  });
}

TEST(ModelStructure, EfficientDetTakesTheMultiplicationsOfThePaper) {
  if (!test_data()) GTEST_SKIP() << kNoTestData;
  const auto pipeline = config::load_pipeline(
      (*test_data() / "data/pipeline_configs/ssd_efficientdet_d0_512x512_coco17_tpu-8.config").string());
  const models::Summary summary = models::summarize_model(pipeline.root());
  // Tan et al., "EfficientDet", CVPR 2020, table 2: 3.9 M parameters, 2.5 B multiply-adds
  EXPECT_NEAR(static_cast<double>(summary.trainable_parameters) * 1e-6, 3.9, 0.05);
  EXPECT_NEAR(static_cast<double>(summary.multiply_adds) * 1e-9, 2.5, 0.05);
}

TEST(ModelStructure, TheFormulaOfTheGoldenVariablesIsUnderstood) {
  for (const auto& file : golden_files("models/forward_check.json")) {
    const auto contents = read_json(file);
    for (const auto& check : contents.at("variable_formula_check")) {
      const std::string name = check.at("name");
      const at::Tensor values = formula_values(name, check.at("shape")).flatten();
      const at::Tensor first = tensor(check.at("first8"));
      expect_close(values.slice(0, 0, first.numel()), first, 1e-6, 0, name);
      EXPECT_NEAR(values[-1].item<double>(), check.at("last").get<double>(), 1e-7) << name;
      EXPECT_NEAR(values.to(at::kDouble).sum().item<double>(), check.at("sum").get<double>(), 1e-5) << name;
      // There and back again through our layout.
      const std::string ours = nn::our_name(name);
      const std::vector<int64_t> tf_shape = check.at("shape");
      if (tf_shape.size() == 4) {
        const at::Tensor tf = values.view(tf_shape), our = nn::from_tf_layout(ours, tf);
        EXPECT_EQ(nn::tf_shape(ours, our.sizes()), tf_shape);
        EXPECT_TRUE(at::equal(nn::to_tf_layout(ours, our), tf)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace osprey
