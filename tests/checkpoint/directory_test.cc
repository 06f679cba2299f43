#include "osprey/checkpoint/directory.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::checkpoint {
namespace {

using osprey::testing::TempDir;
using osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Checkpoint at_step(int64_t step) {
  Checkpoint content;
  content.tensors["model/a"] = at::full({2}, static_cast<double>(step));
  content.attributes["step"] = std::to_string(step);
  return content;
}

std::vector<int64_t> steps(const std::filesystem::path& folder) {
  std::vector<int64_t> result;
  for (const Entry& entry : list(folder)) result.push_back(entry.step);
  return result;
}

TEST(Directory, KeepsTheLastOnes) {
  const TempDir folder;
  Directory directory(folder.path(), {.keep_last = 2});
  for (int64_t step : {5, 10, 100, 1000}) directory.save(step, at_step(step), 1000.0 + static_cast<double>(step));
  EXPECT_THAT(steps(folder.path()), ElementsAre(100, 1000));
  EXPECT_EQ(latest(folder.path())->step, 1000);
  EXPECT_EQ(osprey::testing::read_file(folder / "checkpoint"),
            "model_checkpoint_path: \"ckpt-1000\"\n"
            "all_model_checkpoint_paths: \"ckpt-100\"\nall_model_checkpoint_paths: \"ckpt-1000\"\n"
            "all_model_checkpoint_timestamps: 1100.000\nall_model_checkpoint_timestamps: 2000.000\n");
}

TEST(Directory, KeepsOneInEachSpanOfHoursForEver) {
  const TempDir folder;
  // One checkpoint per half hour, one in two hours stays. The clock starts at the first: hours 2, 4, 6, 8 are kept,
  // which are steps 4, 8, 12, 16 (+ the last two). A new object each time, as after a restart.
  for (int64_t step = 0; step <= 18; ++step)
    Directory(folder.path(), {.keep_last = 2, .keep_every_n_hours = 2})
        .save(step, at_step(step), 5e8 + static_cast<double>(step) * 1800);
  EXPECT_THAT(steps(folder.path()), ElementsAre(4, 8, 12, 16, 17, 18));
}

TEST(Directory, KeepsMultiplesForEver) {
  const TempDir folder;
  Directory directory(folder.path(), {.keep_last = 1, .keep_every_n_steps = 20});
  for (int64_t step = 10; step <= 70; step += 10) directory.save(step, at_step(step), 1e9);
  EXPECT_THAT(steps(folder.path()), ElementsAre(20, 40, 60, 70));
}

TEST(Directory, KeepsTheLastRegularOnesWhateverComesBetweenThem) {
  const TempDir folder;
  Directory directory(folder.path(), {.keep_last = 2, .regular_every_n_steps = 10});
  for (int64_t step : {0, 10, 12, 20, 21, 22}) directory.save(step, at_step(step), 1e9);
  EXPECT_THAT(steps(folder.path()), ElementsAre(10, 20, 22)) << "22 until the next one comes";
  EXPECT_EQ(latest(folder.path())->step, 22);
  directory.save(30, at_step(30), 1e9);
  EXPECT_THAT(steps(folder.path()), ElementsAre(20, 30));
}

TEST(Directory, RemovesOnlyCheckpoints) {
  const TempDir folder;
  for (const char* name : {"ckpt-1.index", "ckpt-x.osprey", "notes.osprey", "ckpt-2.data-00000-of-00001"})
    std::ofstream(folder / name) << name;
  Directory directory(folder.path(), {.keep_last = 1});
  for (int64_t step = 1; step <= 4; ++step) directory.save(step, at_step(step), 1e9);
  for (const char* name : {"ckpt-1.index", "ckpt-x.osprey", "notes.osprey", "ckpt-2.data-00000-of-00001"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  EXPECT_THAT(steps(folder.path()), ElementsAre(4));
}

TEST(Directory, ANewerFileThanTheTextFileNamesIsNotLost) {
  // Killed between the checkpoint and the text file: the text file rules, the newer file waits to be written again.
  const TempDir folder;
  Directory directory(folder.path(), {.keep_last = 5});
  directory.save(10, at_step(10), 1e9);
  write(folder / "ckpt-20.osprey", at_step(20));
  EXPECT_EQ(latest(folder.path())->step, 10);
  std::filesystem::remove(folder / "checkpoint");
  EXPECT_EQ(latest(folder.path())->step, 20);
}

TEST(Directory, ARangeWithoutCheckpointsIsRefusedWithTheStepsThatThereAre) {
  const TempDir folder;
  EXPECT_THAT([&] { list_between(folder.path(), 0, 9); },
              ThrowsMessage<CheckpointError>(HasSubstr("there is no checkpoint")));
  for (int64_t step : {5, 10, 100}) write_file(folder.path() / ("ckpt-" + std::to_string(step) + ".osprey"), "");
  std::vector<int64_t> found;
  for (const Entry& entry : list_between(folder.path(), 5, 10)) found.push_back(entry.step);
  EXPECT_THAT(found, ElementsAre(5, 10));
  EXPECT_THAT([&] { list_between(folder.path(), 11, 99); },
              ThrowsMessage<CheckpointError>(
                  HasSubstr("no checkpoint from step 11 to 99; there are those of step 5, 10, 100")));
}

TEST(Directory, FailsWithTheFileWhenTheFolderIsGone) {
  const TempDir folder;
  Directory directory(folder / "gone", {});
  EXPECT_THAT([&] { directory.save(1, at_step(1), 0); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("gone/ckpt-1.osprey"), HasSubstr("No such file"))));
}

TEST(Resolve, TakesFilesPrefixesAndFolders) {
  const TempDir folder;
  Directory directory(folder.path(), {});
  for (int64_t step : {3, 20}) directory.save(step, at_step(step), 1e9);
  EXPECT_EQ(resolve(folder.path()), folder / "ckpt-20.osprey");
  EXPECT_EQ(resolve(folder / "ckpt-3"), folder / "ckpt-3.osprey");
  EXPECT_EQ(resolve(folder / "ckpt-3.osprey"), folder / "ckpt-3.osprey");
  EXPECT_THAT([&] { resolve(folder / "ckpt-4"); }, ThrowsMessage<CheckpointError>(HasSubstr("no checkpoint there")));
}

TEST(BestKeeper, KeepsTheBestAndRemembersItsValue) {
  const TempDir folder;
  Directory directory(folder.path(), {.keep_last = 1});
  BestKeeper keeper(folder.path(), {.metric = "mAP"});
  EXPECT_FALSE(keeper.offer(directory.save(1, at_step(1), 0), 1, std::nan("")));
  EXPECT_TRUE(keeper.offer(directory.save(2, at_step(2), 0), 2, 0.5));
  EXPECT_FALSE(keeper.offer(directory.save(3, at_step(3), 0), 3, 0.4));
  BestKeeper again(folder.path(), {.metric = "mAP"});
  EXPECT_EQ(again.best(), 0.5);
  EXPECT_FALSE(again.offer(directory.save(4, at_step(4), 0), 4, 0.5));
  EXPECT_THAT(steps(folder / "best"), ElementsAre(2));
  EXPECT_EQ(read(resolve(folder / "best")).number("step", 0), 2);  // still whole, though removed from the folder above
  EXPECT_TRUE(again.offer(directory.save(5, at_step(5), 0), 5, 0.6));
  EXPECT_THAT(steps(folder / "best"), ElementsAre(5));
}

TEST(BestKeeper, TheBestHasTheConfigAndTheLabelMapThatItWasMadeWith) {
  const TempDir folder;
  Directory directory(folder.path(), {});
  BestKeeper keeper(folder.path(), {.metric = "mAP"});
  EXPECT_TRUE(keeper.offer(directory.save(1, at_step(1), 0), 1, 0.1));  // a program of one's own may have neither
  EXPECT_FALSE(std::filesystem::exists(folder / "best/pipeline.config"));
  for (const char* name : {"pipeline.config", "label_map.pbtxt"}) write_file(folder / name, name);
  EXPECT_TRUE(keeper.offer(directory.save(2, at_step(2), 0), 2, 0.5));
  std::ofstream(folder / "pipeline.config") << "edited for the next run";  // in place, as some editors do
  EXPECT_FALSE(keeper.offer(directory.save(3, at_step(3), 0), 3, 0.4));
  for (const std::string name : {"pipeline.config", "label_map.pbtxt"})
    EXPECT_EQ(osprey::testing::read_file(folder / ("best/" + name)), name);
}

TEST(BestKeeper, AFileThatSomebodyChangedIsNoMemory) {
  TempDir folder;
  write_file(folder.path() / "best/best.json", "{\"metric\": [\"mAP\"], \"value\": 2}");
  BestKeeper keeper(folder.path(), {.metric = "mAP"});
  write_file(folder.path() / "ckpt-1.osprey", "weights");
  EXPECT_TRUE(keeper.offer(folder.path() / "ckpt-1.osprey", 1, 0.5));
}

TEST(BestKeeper, LowerIsBetterWhereAsked) {
  const TempDir folder;
  Directory directory(folder.path(), {});
  BestKeeper keeper(folder.path(), {.metric = "Loss/total_loss", .higher_is_better = false});
  EXPECT_TRUE(keeper.offer(directory.save(1, at_step(1), 0), 1, 2.0));
  EXPECT_TRUE(keeper.offer(directory.save(2, at_step(2), 0), 2, 1.0));
  EXPECT_FALSE(keeper.offer(directory.save(3, at_step(3), 0), 3, 1.5));
}

TEST(MetricGoal, AValueBeatsTheBestByMoreThanTheLeastDifference) {
  const MetricGoal up{.metric = "mAP", .min_delta = 0.25}, down{"loss", false, 0.25};
  EXPECT_FALSE(up.beats(0.75, 0.5));
  EXPECT_TRUE(up.beats(0.76, 0.5));
  EXPECT_FALSE(down.beats(0.25, 0.5));
  EXPECT_TRUE(down.beats(0.24, 0.5));
  EXPECT_TRUE(up.beats(-1, std::nullopt));
  EXPECT_FALSE(up.beats(std::nan(""), std::nullopt));
}

}  // namespace
}  // namespace osprey::checkpoint
