// Runs on pictures of different sizes that no resizer brings to one.
#include <gmock/gmock.h>

#include "osprey/checkpoint/directory.h"
#include "osprey/data/image_codec.h"
#include "osprey/export/exporter.h"
#include "osprey/train/job.h"
#include "support/golden.h"
#include "support/pictures.h"
#include "support/temp_dir.h"
#include "train/on_replicas.h"

namespace osprey::train {
namespace {
using osprey::testing::read_file;
using osprey::testing::TempDir;
using osprey::testing::write_file;

/// Six pictures of six sizes, one box each.
struct Pictures {
  Pictures() {
    std::string rows;
    for (int i = 0; i < 6; ++i) {
      const std::string name = std::to_string(i) + ".jpg";
      write_file(folder / ("images/" + name),
                 data::encode_jpeg(osprey::testing::gradient_image(64 + 16 * i, 144 - 16 * i)));
      rows += name + ",4,4,40,40,star\n";
    }
    write_file(folder / "boxes.csv", rows);
  }
  config::Pipeline pipeline(int num_steps, int eval_batch_size) const {
    const std::string reader = "{annotation_input_reader { format: CSV input: '" + (folder / "boxes.csv") + "' }";
    return config::load_pipeline(
        OSPREY_SOURCE_DIR "/configs/quickstart.config",
        {"model.ssd.image_resizer={keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 120 }}",
         "model.ssd.num_classes=", "train_config.batch_size=2", "train_config.num_steps=" + std::to_string(num_steps),
         "train_config.precision=FP32", "train_input_reader=" + reader + " shuffle: true }",
         "eval_input_reader=[" + reader + " shuffle: false }]",
         "eval_config.batch_size=" + std::to_string(eval_batch_size)});
  }
  TempDir folder;
};

TEST(AnySize, ARunLearnsIsEvaluatedAndGoesOnWhereItWas) {
  const Pictures pictures;
  const auto weights = [&](const std::string& run) {
    return read_file(checkpoint::latest(pictures.folder / run)->file);
  };
  EXPECT_EQ(train(pictures.pipeline(6, 1), {.model_dir = pictures.folder / "whole"}).steps, 6);
  train(pictures.pipeline(3, 1), {.model_dir = pictures.folder / "parts"});
  train(pictures.pipeline(6, 1), {.model_dir = pictures.folder / "parts"});
  EXPECT_TRUE(weights("whole") == weights("parts"));
  const nlohmann::json metrics = osprey::testing::read_json(pictures.folder / "whole/eval/metrics_6.json");
  EXPECT_EQ(metrics.at("num_images"), 6);
  EXPECT_GT(metrics.at("metrics").at("Loss/total_loss").get<double>(), 0);
}

TEST(AnySize, AnExportPadsEveryPictureToTheLargestAndFindsWhatTheCheckpointFindsThere) {
  const Pictures pictures;
  const config::Pipeline pipeline = pictures.pipeline(2, 1);
  train(pipeline, {.model_dir = pictures.folder / "run"});
  const ExportReport report = export_model(config::load_pipeline(pictures.folder / "run/pipeline.config"),
                                           pictures.folder / "run", pictures.folder / "exported");
  EXPECT_TRUE(report.real_images);
  EXPECT_EQ(report.images, 4);
  EXPECT_GT(report.detections, 0);
  const nlohmann::json card = osprey::testing::read_json(pictures.folder / "exported/model_card.json");
  EXPECT_EQ(card.at("preprocessing").at("height"), 120);
  EXPECT_EQ(card.at("preprocessing").at("width"), 120);
}

TEST(AnySize, ReplicasDoNotShareTheStatisticsOfBatchesOfDifferentSizes) {
  const Pictures pictures;
  config::Pipeline pipeline = pictures.pipeline(2, 1);
  pipeline.message->mutable_train_config()->set_sync_batch_norm(true);
  for (const std::string& error : osprey::testing::on_replicas(2, [&](Replicas& replicas) {
         JobOptions options;
         options.model_dir = pictures.folder / ("run" + std::to_string(replicas.place().rank));
         options.replicas = &replicas;
         train(pipeline, options);
       }))
    EXPECT_THAT(error, ::testing::HasSubstr("sync_batch_norm: needs an image_resizer that brings all pictures to one"));
}

TEST(AnySize, AnEvaluationOfSeveralAtATimePadsThem) {
  const Pictures pictures;
  train(pictures.pipeline(2, 4), {.model_dir = pictures.folder / "run"});
  EXPECT_EQ(osprey::testing::read_json(pictures.folder / "run/eval/metrics_2.json").at("num_images"), 6);
}

}  // namespace
}  // namespace osprey::train
