// Checkpoints with the variables of the original's models give ours all their values.
#include "models/golden_model.h"
#include "osprey/checkpoint/model_weights.h"
#include "osprey/checkpoint/warm_start.h"
#include "support/temp_dir.h"
#include "support/tensorflow_files.h"

namespace osprey {
namespace {

using namespace osprey::testing;

/// The variables of the original's model as its checkpoint holds them, by the file of its structure.
std::vector<TensorFlowVariable> original_variables(const std::filesystem::path& forward_file) {
  const std::string name = forward_file.filename().string().substr(std::string("forward_").size());
  std::vector<TensorFlowVariable> result;
  const nlohmann::json golden = read_json(forward_file.parent_path() / name);
  for (const auto& variable : golden.at("variables")) {
    const std::vector<int64_t> shape = variable.at(1);
    result.push_back({variable.at(0), formula_values(variable.at(0), shape),
                      variable.size() > 3 ? variable.at(3).get<std::string>() : ""});
  }
  return result;
}

/// What a classifier would hold of them: the backbone's, whose names have no scope of a detector.
std::vector<TensorFlowVariable> of_classifier(const std::vector<TensorFlowVariable>& variables,
                                              const std::set<std::string>& backbone) {
  const std::string scope = "FeatureExtractor/";
  std::vector<TensorFlowVariable> result;
  for (TensorFlowVariable variable : variables) {
    if (backbone.count(variable.name) == 0) continue;
    if (variable.name.starts_with(scope)) variable.name = variable.name.substr(scope.size());
    result.push_back(variable);
  }
  return result;
}

TEST(TensorFlowCheckpoints, OfDetectorsAndClassifiersGiveAModelTheirValues) {
  for_each_model(model_files("forward_"), true,
                 [](const nlohmann::json& golden, const config::Pipeline& pipeline, const std::filesystem::path& file) {
                   const std::vector<TensorFlowVariable> variables = original_variables(file);
                   std::map<std::string, at::Tensor> values;
                   for (const TensorFlowVariable& variable : variables) values[variable.name] = variable.values;
                   const auto model = models::build_model(pipeline.root());
                   const auto expect_values = [&](auto wanted) {
                     for (const auto& [name, tensor] : models::variables(*model)) {
                       const at::Tensor expected = nn::from_tf_layout(name, values.at(original_name(golden, name)));
                       EXPECT_EQ(at::equal(tensor.detach(), expected), wanted(name)) << name;
                     }
                   };

                   std::set<std::string> ours, theirs;  // the backbone's
                   for (const auto& [from, to] : model->restore_map(models::RestoreType::kClassification)) {
                     ours.insert(to);
                     theirs.insert(original_name(golden, to));
                   }
                   const TempDir folder;
                   write_tensorflow(folder / "classifier", of_classifier(variables, theirs));
                   checkpoint::warm_start(folder / "classifier", *model,
                                          {.type = models::RestoreType::kClassification, .min_coverage = 1});
                   expect_values([&](const std::string& name) { return ours.count(name) > 0; });

                   write_tensorflow(folder / "detector", variables);
                   checkpoint::load_model(folder / "detector", *model, /*moving_averages=*/false);
                   expect_values([](const std::string&) { return true; });
                 });
}

}  // namespace
}  // namespace osprey
