#include "../src/train/assembly.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "../src/train/faster_precision.h"
#include "../src/train/training_source.h"
#include "osprey/base/cpu.h"
#include "osprey/base/error.h"
#include "osprey/data/loader.h"
#include "osprey/data/resize.h"
#include "support/log.h"

namespace osprey::train {
namespace {

using ::osprey::testing::logged_by;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// The quickstart config with lines of its own.
Assembly assembled(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"train_config.batch_size=2", "train_input_reader.label_map_path="});
  return assemble(config::load_pipeline(OSPREY_SOURCE_DIR "/configs/quickstart.config", overrides),
                  {.use_fake_data = true});
}

TEST(Assembly, WhatDoesNotSuitATrainingForEightBitsIsSaid) {
  const auto log_of = [](std::vector<std::string> overrides) { return logged_by([&] { assembled(overrides); }); };
  const std::string delay = "graph_rewriter={quantization {delay: 900}}",
                    averages = "eval_config.use_moving_averages=", steps = "train_config.num_steps=";
  const auto of_delay = HasSubstr("quantization.delay: 900 is beyond the last step, 800"),
             of_averages = HasSubstr("eval_config.use_moving_averages: averages of weights");
  EXPECT_THAT(log_of({delay, averages + "true", steps + "800"}), AllOf(of_delay, of_averages));
  EXPECT_THAT(log_of({delay, averages + "false", steps + "1000"}), AllOf(Not(of_delay), Not(of_averages)));
  EXPECT_THAT(log_of({averages + "true", steps + "800"}), Not(of_averages));
  EXPECT_THAT(log_of({delay, "graph_rewriter.quantization.weights_per_channel=true", averages + "true"}),
              Not(of_averages));
}

void expect_refused(const std::string& override, const std::string& field, const std::string& why) {
  EXPECT_THAT([&] { training_source(assembled({override}), {.use_fake_data = true}); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr(field), HasSubstr(why))))
      << override;
}

TEST(Assembly, ALossScaleThatCannotBeIsRefusedByName) {
  expect_refused("train_config.loss_scale.fixed=0", "train_config.loss_scale.fixed", "> 0, got 0");
  expect_refused("train_config.loss_scale.fixed=-2", "train_config.loss_scale.fixed", "> 0, got -2");
  expect_refused("train_config.loss_scale.dynamic.initial=0", "train_config.loss_scale.dynamic.initial", "> 0, got 0");
  expect_refused("train_config.loss_scale.dynamic.growth_interval=0", "train_config.loss_scale.dynamic.growth_interval",
                 ">= 1");
  expect_refused("train_config.loss_scale.none=false", "train_config.loss_scale.none", "none: true");
}

TEST(Assembly, EverythingOutOfRangeIsRefusedAtOnce) {
  EXPECT_THAT(
      [] {
        assembled({"train_config.log_every_n_steps=0", "train_config.checkpoint.keep_last=0",
                   "train_config.max_bad_fraction=2", "train_config.num_epochs=3"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.log_every_n_steps: must be >= 1, got 0"),
                                       HasSubstr("train_config.checkpoint.keep_last: must be >= 1, got 0"),
                                       HasSubstr("train_config.max_bad_fraction: must be between 0 and 1, got 2"),
                                       HasSubstr("train_config.num_epochs: cannot stand beside num_steps"))));
}

TEST(Assembly, TheLossIsScaledWhereHalfPrecisionOrTheConfigAsksForIt) {
  EXPECT_EQ(assembled({}).state.loss_scale, nullptr);
  EXPECT_NE(assembled({"train_config.precision=FP16"}).state.loss_scale, nullptr);
  EXPECT_EQ(assembled({"train_config.precision=FP16", "train_config.loss_scale.none=true"}).state.loss_scale, nullptr);
  EXPECT_NE(assembled({"train_config.loss_scale.fixed=128"}).state.loss_scale, nullptr);
}

TEST(Assembly, TheEnvironmentTurnsTheAutomaticLossScaleOff) {
  const char* const variable = "TF_ENABLE_AUTO_MIXED_PRECISION_LOSS_SCALING";
  setenv(variable, "0", 1);
  EXPECT_EQ(assembled({"train_config.precision=FP16"}).state.loss_scale, nullptr);
  EXPECT_NE(assembled({"train_config.precision=FP16", "train_config.loss_scale.dynamic={}"}).state.loss_scale, nullptr)
      << "what the config says counts";
  setenv(variable, "1", 1);
  EXPECT_NE(assembled({"train_config.precision=FP16"}).state.loss_scale, nullptr);
  unsetenv(variable);
}

TEST(Assembly, ARecordedStepThatCannotBeIsRefusedByName) {
  const std::string on = "train_config.accelerator.cuda_graph=ON", field = "train_config.accelerator.cuda_graph";
  EXPECT_EQ(assembled({}).cuda_graph, StepRecording::kOff) << "AUTO on a CPU";
  expect_refused(on, field, "needs a GPU");
  EXPECT_THAT(
      [&] {
        assembled({on, "model.ssd.loss.hard_example_miner.num_hard_examples=10"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr(field), HasSubstr("model.ssd.loss.hard_example_miner"))));
  EXPECT_THAT(
      [&] {
        assembled({on, "model.ssd.image_resizer={pad_to_multiple_resizer { multiple: 32 }}"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr(field), HasSubstr("image_resizer.pad_to_multiple_resizer"))));
}

TEST(Assembly, ThePenaltyOnWeightsIsLeftOutOfLossAndGradientsWhereTheConfigSaysSo) {
  const auto losses = [](const std::string& add) {
    Assembly assembly = assembled({"train_config.add_regularization_loss=" + add});
    const auto source = training_source(assembly, {.use_fake_data = true});
    std::vector<std::string> names;
    for (const auto& loss : train_step(assembly.state, *source->next(), *assembly.gradients, assembly.step).losses)
      names.push_back(loss.name);
    return std::pair(names, assembly.gradients->adds_penalties());
  };
  using ::testing::Contains;
  using ::testing::Not;
  using ::testing::Pair;
  EXPECT_THAT(losses("true"), Pair(Contains("Loss/regularization_loss"), true));
  EXPECT_THAT(losses("false"), Pair(Not(Contains("Loss/regularization_loss")), false));
}

TEST(Assembly, WhatBecomesOfBatchesThatAreNotFiniteIsRefusedByNameWhereItMakesNoSense) {
  const auto refused = [](const std::string& on_nan, const std::string& field, const std::string& why) {
    expect_refused("train_config.on_nan=" + on_nan, "train_config.on_nan." + field, why);
  };
  refused("{policy: SKIP_BATCH max_skipped_in_a_row: 0}", "max_skipped_in_a_row", "must be >= 1, got 0");
  refused("{max_skipped_in_a_row: 3}", "max_skipped_in_a_row", "goes with policy: SKIP_BATCH, but the policy is STOP");
  refused("{policy: SKIP_BATCH max_rollbacks: 3}", "max_rollbacks",
          "goes with policy: ROLLBACK, but the policy is SKIP_BATCH");
  refused("{policy: ROLLBACK max_rollbacks: 0}", "max_rollbacks", "must be >= 1, got 0");
  refused("{rollback_learning_rate_factor: 0.5}", "rollback_learning_rate_factor", "goes with policy: ROLLBACK");
  refused("{policy: ROLLBACK rollback_learning_rate_factor: 0}", "rollback_learning_rate_factor", "must be > 0, got 0");
  refused("{policy: ROLLBACK rollback_learning_rate_factor: 2}", "rollback_learning_rate_factor", "between 0 and 1");
  EXPECT_THAT(
      [] {
        assembled({"train_config.on_nan.policy=ROLLBACK", "train_input_reader.num_epochs=2"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.on_nan.policy"), HasSubstr("the data ends"))));
}

TEST(Assembly, DeterministicRefusesATrialOfPrecisions) {
  const std::vector<std::string> overrides = {"train_config.deterministic=true", "train_config.precision=AUTO"};
  if (!has_bfloat16_arithmetic()) {
    EXPECT_EQ(assembled(overrides).step.precision, Precision::kFloat32) << "nothing to try on this CPU";
    return;
  }
  EXPECT_THAT([&] { assembled(overrides); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.precision"), HasSubstr("FP32 or BF16"))));
  EXPECT_EQ(assembled({"train_config.deterministic=true"}).step.precision, Precision::kFloat32);
}

TEST(Assembly, ATrialOfPrecisionsLeavesTheModelAsItWas) {
  Assembly assembly = assembled({});
  const auto tensors = [&] {
    std::map<std::string, at::Tensor> result;
    for (const auto& [name, tensor] : snapshot(assembly.state).tensors) result[name] = tensor.clone();
    return result;
  };
  const auto before = tensors();
  const PrecisionTrial trial = try_precisions(*assembly.state.model, data::train_options(assembly.root()), nullptr);
  EXPECT_GT(trial.float32, 0);
  EXPECT_GT(trial.bfloat16, 0);
  for (const auto& [name, tensor] : tensors()) EXPECT_TRUE(tensor.equal(before.at(name))) << name;
  for (const at::Tensor& parameter : assembly.state.model->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Assembly, TheQueueFieldsOfTheFirstTrainerSetThreadsAndBatchesAhead) {
  const auto options = [](const std::vector<std::string>& overrides) {
    return data::train_options(assembled(overrides).root());
  };
  EXPECT_EQ(options({}).num_workers, 0) << "one per processor";
  EXPECT_EQ(options({"train_config.num_batch_queue_threads=3"}).num_workers, 3);
  EXPECT_EQ(options({}).prefetch_batches, 0) << "as the reader says";
  EXPECT_EQ(options({"train_config.prefetch_queue_capacity=4"}).prefetch_batches, 4);
  // In batches of two:
  EXPECT_EQ(options({"train_config.batch_queue_capacity=30"}).prefetch_batches, 15);
  EXPECT_EQ(options({"train_config.batch_queue_capacity=7"}).prefetch_batches, 3) << "whole ones";
  EXPECT_EQ(options({"train_config.batch_queue_capacity=1"}).prefetch_batches, 1);
  EXPECT_EQ(
      options({"train_config.batch_queue_capacity=30", "train_config.prefetch_queue_capacity=4"}).prefetch_batches, 4);
  EXPECT_EQ(
      options({"train_config.batch_queue_capacity=30", "train_input_reader.num_prefetch_batches=2"}).prefetch_batches,
      0)
      << "as the reader says";
  EXPECT_EQ(
      options({"train_config.prefetch_queue_capacity=4", "train_input_reader.num_prefetch_batches=2"}).prefetch_batches,
      0);
}

TEST(Assembly, SynchronousReplicasStartTogether) {
  EXPECT_NO_THROW(assembled({"train_config.sync_replicas=true"}));
  EXPECT_NO_THROW(assembled({"train_config.sync_replicas=true", "train_config.startup_delay_steps=0"}));
  EXPECT_THAT(
      [] {
        assembled({"train_config.sync_replicas=true", "train_config.startup_delay_steps=15"});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.startup_delay_steps"), HasSubstr("got 15"))));
}

TEST(Assembly, PicturesResizedInTheStepAreThoseOfTheLoader) {
  const Assembly assembly = assembled({"train_config.accelerator.resize={max_height: 300 max_width: 280}"});
  const auto source = training_source(assembly, {.use_fake_data = true});
  const Batch batch = *source->next();
  EXPECT_EQ(batch.images.sizes(), (at::IntArrayRef{2, 3, 300, 280}));
  models::DetectionModel& model = *assembly.state.model;
  const at::Tensor ours = model.preprocess(batch).images;

  Batch resized = batch;
  resized.source_shapes = at::Tensor();
  resized.images = at::empty(ours.sizes());
  for (int64_t i = 0; i < batch.size(); ++i) {
    const int64_t height = batch.source_shapes[i][0].item<int64_t>(), width = batch.source_shapes[i][1].item<int64_t>();
    const at::Tensor picture = batch.images[i].slice(1, 0, height).slice(2, 0, width).permute({1, 2, 0});
    resized.images[i] = data::resize(picture.contiguous(), ours.size(2), ours.size(3)).permute({2, 0, 1});
  }
  EXPECT_TRUE(at::allclose(ours, model.preprocess(resized).images, 0, 1e-5));
}

TEST(Assembly, ACanvasTooSmallOrAnotherWayOfResizingIsRefusedByName) {
  expect_refused("train_config.accelerator.resize={max_height: 300 max_width: 20}",
                 "train_config.accelerator.resize.max_width", "at least the network's");
  expect_refused("train_config.accelerator.resize={max_width: 300}", "train_config.accelerator.resize.max_height",
                 "got 0");
  const std::string resizer = "model.ssd.image_resizer.fixed_shape_resizer.resize_method=BICUBIC";
  EXPECT_THAT(
      [&] {
        const Assembly assembly =
            assembled({"train_config.accelerator.resize={max_height: 900 max_width: 900}", resizer});
        training_source(assembly, {.use_fake_data = true});
      },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("train_config.accelerator.resize"), HasSubstr("bilinear"))));
}

}  // namespace
}  // namespace osprey::train
