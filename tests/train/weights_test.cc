// The weights that a run keeps beside its checkpoints.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "osprey/checkpoint/model_weights.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

namespace fs = std::filesystem;
using osprey::testing::read_file;
using osprey::testing::TempDir;

/// The quickstart's training on made-up pictures, whose weights have averages.
int train(const TempDir& folder, const std::string& more) {
  osprey::testing::write_file(folder / "map.pbtxt",
                              "item { id: 1 name: 'a' } item { id: 2 name: 'b' } item { id: 3 name: 'c' }");
  const std::string command = fmt::format(
      "'{0}/bin/train_detector' --pipeline_config '{1}/configs/quickstart.config' --model_dir '{2}/run' "
      "--use_fake_data "
      "--train_batch_size 2 --set train_config.optimizer.use_moving_average=true "
      "--set train_input_reader.label_map_path='{2}/map.pbtxt' --set 'eval_input_reader[0].label_map_path=' {3} > "
      "'{2}/said' 2>&1",
      OSPREY_BINARY_DIR, OSPREY_SOURCE_DIR, folder.path().string(), more);
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Weights, AreKeptAtMultiplesAndAtTheEndAsEvaluationTakesThem) {
  const TempDir folder;
  ASSERT_EQ(train(folder, "--num_train_steps 5 --set train_config.checkpoint.weights_every_n_steps=2"), 0)
      << read_file(folder / "said");
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder / "run/weights")) files.push_back(entry.path().filename());
  EXPECT_THAT(files, ::testing::UnorderedElementsAre("ckpt-2.osprey", "ckpt-4.osprey", "ckpt-5.osprey",
                                                     "pipeline.config", "label_map.pbtxt"));

  const checkpoint::Checkpoint whole = checkpoint::read(folder / "run/ckpt-5.osprey"),
                               weights = checkpoint::read(folder / "run/weights/ckpt-5.osprey");
  const auto averages = checkpoint::with_prefix(whole, "average/"), trained = checkpoint::with_prefix(whole, "model/"),
             kept = checkpoint::with_prefix(weights, "model/");
  ASSERT_GT(averages.size(), 10u);
  EXPECT_EQ(weights.tensors.size(), kept.size()) << "no slots, nothing else";
  ASSERT_EQ(kept.size(), trained.size());
  bool differ = false;
  for (const auto& [name, tensor] : kept) {
    const bool averaged = averages.count(name) > 0;
    EXPECT_TRUE(at::equal(tensor, averaged ? averages.at(name) : trained.at(name))) << name;
    differ |= !at::equal(tensor, trained.at(name));
  }
  EXPECT_TRUE(differ) << "averages are not what was trained last";
  EXPECT_EQ(weights.number("step", -1), 5);
  EXPECT_LT(fs::file_size(folder / "run/weights/ckpt-5.osprey"), fs::file_size(folder / "run/ckpt-5.osprey") / 2);

  const std::string exported = fmt::format(
      "cd '{0}' && '{1}/bin/export_model' --pipeline_config run/weights/pipeline.config --checkpoint "
      "run/weights/ckpt-5.osprey "
      "--output_dir exported > said 2>&1",
      folder.path().string(), OSPREY_BINARY_DIR);
  EXPECT_EQ(std::system(exported.c_str()), 0) << read_file(folder / "said");
}

TEST(Weights, AreNotWrittenUnlessAskedFor) {
  const TempDir folder;
  ASSERT_EQ(train(folder, "--num_train_steps 1"), 0) << read_file(folder / "said");
  EXPECT_FALSE(fs::exists(folder / "run/weights"));
}

}  // namespace
}  // namespace osprey::train
