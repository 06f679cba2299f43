#include "osprey/config/effective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/base/cpu.h"
#include "osprey/config/deprecated.h"
#include "osprey/config/resolve.h"
#include "osprey/config/static_shapes.h"
#include "osprey/config/support.h"
#include "osprey/config/validate.h"
#include "support/temp_dir.h"

namespace osprey::config {
namespace {

using osprey::testing::TempDir;
using osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

Pipeline pipeline_of(const std::string& text, const std::vector<std::string>& assignments = {}) {
  return parse_pipeline(text, "p.config", assignments);
}

std::string validation_error(const std::string& text) {
  try {
    validate(pipeline_of(text));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> paths(const std::vector<Remark>& remarks) {
  std::vector<std::string> result;
  for (const Remark& remark : remarks) result.push_back(remark.path);
  return result;
}

TEST(Effective, EveryValueCarriesItsOrigin) {
  const auto pipeline =
      pipeline_of("train_config {\n  batch_size: 8\n  freeze_variables: 'a'\n}\n", {"train_config.num_steps=7"});
  EXPECT_EQ(annotated_text(pipeline),
            "train_config {\n  batch_size: 8  # p.config:2\n  num_steps: 7  # --set\n  freeze_variables: \"a\"  # "
            "p.config:3\n}\n");
  EXPECT_EQ(effective_text(*pipeline.message),
            "train_config {\n  batch_size: 8\n  num_steps: 7\n  freeze_variables: \"a\"\n}\n");
  const auto values = set_values(pipeline);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[2].path, "train_config.freeze_variables[0]");
  EXPECT_EQ(values[2].text, "\"a\"");
}

TEST(Effective, LettersOfEveryLanguageStandAsTheyAreAndAreReadAgain) {
  const auto pipeline = pipeline_of("eval_config { export_path: 'Gr\u00f6\u00dfe/\u732b\t\"\\\\' }");
  const std::string text = effective_text(*pipeline.message);
  EXPECT_EQ(text, "eval_config {\n  export_path: \"Gr\u00f6\u00dfe/\u732b\\t\\\"\\\\\"\n}\n");
  EXPECT_EQ(effective_text(*pipeline_of(text).message), text);
}

TEST(Validate, RangesOfQueuesAndOfTheTimeBetweenCheckpoints) {
  EXPECT_EQ(validation_error("train_config { num_batch_queue_threads: 1 prefetch_queue_capacity: 1 checkpoint { "
                             "every_n_secs: 600 } }"),
            "");
  EXPECT_THAT(validation_error("train_config { num_batch_queue_threads: 0 }"),
              HasSubstr("train_config.num_batch_queue_threads: must be >= 1, got 0"));
  EXPECT_THAT(validation_error("train_config { prefetch_queue_capacity: -1 }"),
              HasSubstr("train_config.prefetch_queue_capacity: must be >= 1, got -1"));
  EXPECT_THAT(validation_error("train_config { batch_queue_capacity: 0 }"),
              HasSubstr("train_config.batch_queue_capacity: must be >= 1, got 0"));
  EXPECT_THAT(validation_error("train_config { checkpoint { every_n_secs: -1 } }"),
              HasSubstr("train_config.checkpoint.every_n_secs: must be >= 0, got -1"));
}

TEST(Validate, ScoresThatAreUsedMustBeLoaded) {
  const std::string classes = "train_config { use_multiclass_scores: true }";
  EXPECT_THAT(validation_error(classes),
              HasSubstr("train_config.use_multiclass_scores: needs train_input_reader.load_multiclass_scores: true"));
  EXPECT_EQ(validation_error(classes + " train_input_reader { load_multiclass_scores: true }"), "");
  const std::string step = "train_config { data_augmentation_options { convert_class_logits_to_softmax {} } }";
  EXPECT_THAT(validation_error(step), HasSubstr("data_augmentation_options[0].convert_class_logits_to_softmax: needs "
                                                "train_input_reader.load_multiclass_scores: true"));
  EXPECT_EQ(validation_error(step + " train_input_reader { load_multiclass_scores: true }"), "");
}

TEST(Effective, TheMessageInsideAnAnyIsWrittenOut) {
  const auto pipeline = pipeline_of(
      "train_config { data_augmentation_options { custom { [type.googleapis.com/osprey.protos.RandomHorizontalFlip] "
      "{ probability: 0.25 } } } }");
  EXPECT_THAT(annotated_text(pipeline), HasSubstr("probability: 0.25"));
  EXPECT_EQ(effective_text(*parse_pipeline(annotated_text(pipeline)).message), effective_text(*pipeline.message));
  EXPECT_NE(pipeline.sources->find("train_config.data_augmentation_options[0].custom.probability"), nullptr);
}

TEST(Validate, EveryFieldOutOfRangeIsReportedInOneRun) {
  const std::string all = validation_error(
      "model { ssd { num_classes: 0 } }\n"
      "train_config {\n  batch_size: 0\n  max_bad_fraction: 1.5\n  gradient_accumulation_steps: 0\n"
      "  fine_tune_checkpoint_type: \"detecton\"\n  gradient_clipping_by_norm: nan\n  num_steps: 4 num_epochs: 2\n}\n"
      "eval_config { min_score_threshold: -0.1 recall_lower_bound: 0.9 recall_upper_bound: 0.5\n"
      "  eval_every_n_steps: 4 eval_every_n_epochs: 2 eval_from_epoch: -1 }\n"
      "eval_input_reader {\n  sample_1_of_n_examples: 0\n  sample_from_datasets_weights: -1\n"
      "  tf_record_input_reader { }\n  label_map_path: \"C:\\temp\"\n}\n");
  EXPECT_THAT(all,
              AllOf(HasSubstr("p.config:1:15: model.ssd.num_classes: must be >= 1, got 0"),
                    HasSubstr("p.config:3:3: train_config.batch_size: must be >= 1, got 0\n  batch_size: 0\n  ^"),
                    HasSubstr("train_config.max_bad_fraction: must be between 0 and 1, got 1.5"),
                    HasSubstr("train_config.gradient_accumulation_steps"), HasSubstr("did you mean \"detection\"?"),
                    HasSubstr("train_config.gradient_clipping_by_norm: must be a finite number"),
                    HasSubstr("train_config.num_epochs: cannot stand beside num_steps")));
  EXPECT_THAT(
      all,
      AllOf(HasSubstr("eval_config.eval_every_n_epochs: cannot stand beside eval_every_n_steps"),
            HasSubstr("eval_config.eval_from_epoch: must be >= 0, got -1"),
            HasSubstr("eval_config.min_score_threshold"), HasSubstr("eval_config.recall_lower_bound: must not exceed"),
            HasSubstr("eval_input_reader[0].sample_1_of_n_examples"),
            HasSubstr("eval_input_reader[0].sample_from_datasets_weights[0]"), HasSubstr("names no input_path"),
            HasSubstr("eval_input_reader[0].label_map_path: holds a control character")));
  EXPECT_EQ(validation_error(""), "");
}

TEST(DataDir, TakesThePlaceOfPlaceholdersAndStandsBeforeRelativePaths) {
  const auto pipeline = parse_pipeline(
      "train_input_reader { label_map_path: 'PATH_TO_BE_CONFIGURED/map.pbtxt'\n"
      "  tf_record_input_reader { input_path: ['/a/b', 'c.record', 'PATH_TO_BE_CONFIGURED/d-?'] } }\n"
      "eval_input_reader { label_map_path: 'map.pbtxt' } eval_input_reader { external_input_reader {} }",
      "p.config", Overrides{.data_dir = "data"});
  const auto& train = pipeline.message->train_input_reader();
  EXPECT_EQ(train.label_map_path(), "data/map.pbtxt");
  EXPECT_THAT(train.tf_record_input_reader().input_path(), ElementsAre("/a/b", "data/c.record", "data/d-?"));
  const auto& readers = pipeline.message->eval_input_reader();
  EXPECT_EQ(readers[0].label_map_path(), "data/map.pbtxt");
  EXPECT_THAT(readers[0].tf_record_input_reader().input_path(), ElementsAre("data/validation-*"))
      << "a reader without paths";
  EXPECT_TRUE(readers[1].has_external_input_reader());
  EXPECT_THAT(annotated_text(pipeline),
              AllOf(HasSubstr("input_path: \"/a/b\"  # p.config:2"), HasSubstr("\"data/c.record\"  # --data_dir"),
                    HasSubstr("\"data/d-?\"  # --data_dir"), HasSubstr("\"data/map.pbtxt\"  # --data_dir"),
                    HasSubstr("\"data/validation-*\"  # --data_dir")));
  EXPECT_EQ(pipeline.sources->origin("eval_input_reader[0].label_map_path").source, "--data_dir data");
  const auto saved = parse_pipeline(
      "train_input_reader { label_map_path: 'data/map.pbtxt' tf_record_input_reader { input_path: 'data2/c.record' } }",
      "run/pipeline.config", Overrides{.data_dir = "data"});
  EXPECT_EQ(saved.message->train_input_reader().label_map_path(), "data/map.pbtxt") << "it is there already";
  EXPECT_THAT(saved.message->train_input_reader().tf_record_input_reader().input_path(),
              ElementsAre("data/data2/c.record"));
  const auto same_name = parse_pipeline("train_input_reader { label_map_path: 'PATH_TO_BE_CONFIGURED/data/map.pbtxt' }",
                                        "p.config", Overrides{.data_dir = "./data"});
  EXPECT_EQ(same_name.message->train_input_reader().label_map_path(), "./data/data/map.pbtxt");
  const auto bare = parse_pipeline("train_input_reader {}", "p.config", Overrides{.data_dir = "data"});
  EXPECT_THAT(bare.message->train_input_reader().tf_record_input_reader().input_path(), ElementsAre("data/train-*"));
}

TEST(Validate, PlaceholdersAreRefusedByNameInTheGivenParts) {
  const auto pipeline = pipeline_of(
      "train_config { fine_tune_checkpoint: 'PATH_TO_BE_CONFIGURED/model.ckpt' }\n"
      "train_input_reader { label_map_path: '/a' tf_record_input_reader { input_path: 'PATH_TO_BE_CONFIGURED/a' } }\n"
      "eval_input_reader { label_map_path: 'PATH_TO_BE_CONFIGURED' }\n");
  auto error_of = [&](const std::vector<std::string>& parts) -> std::string {
    try {
      require_configured_paths(pipeline, parts);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(
      error_of({"train_config", "train_input_reader"}),
      AllOf(HasSubstr("train_config.fine_tune_checkpoint: still holds the placeholder"),
            HasSubstr("train_input_reader.tf_record_input_reader.input_path[0]"), Not(HasSubstr("eval_input_reader"))));
  EXPECT_THAT(error_of({}), HasSubstr("eval_input_reader[0].label_map_path"));
  EXPECT_EQ(error_of({"model"}), "");
}

TEST(Support, AChoiceThatIsNotBuiltEndsWithItsField) {
  try {
    require_supported(pipeline_of("model {\n  faster_rcnn {}\n}"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::EndsWith("is not supported yet: model.faster_rcnn"));
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
  }
}

TEST(Support, WhatOfQuantizationTheOriginalIgnoresIsListed) {
  const std::string keras =
      "graph_rewriter { quantization {} } model { ssd { feature_extractor { type: 'ssd_mobilenet_v2_keras' } } }";
  EXPECT_THAT(unsupported_choices(pipeline_of(keras)).refused, IsEmpty());
  EXPECT_THAT(paths(unsupported_choices(pipeline_of(keras)).listed), ElementsAre("graph_rewriter"));
  EXPECT_THAT(paths(unsupported_choices(pipeline_of(keras, {"graph_rewriter="})).listed), IsEmpty());
  EXPECT_THAT(paths(unsupported_choices(pipeline_of("graph_rewriter { quantization { delay: 3 } }")).listed),
              IsEmpty());
  EXPECT_THAT(paths(unsupported_choices(pipeline_of("graph_rewriter { quantization { symmetric: true } }")).listed),
              ElementsAre("graph_rewriter.quantization.symmetric"));
  EXPECT_THAT(paths(unsupported_choices(pipeline_of("graph_rewriter { quantization { symmetric: false } }")).listed),
              IsEmpty());
}

TEST(Support, StrictRefusesWhatWouldBeIgnored) {
  const std::string masks = "train_input_reader { load_instance_masks: true }";
  EXPECT_NO_THROW(check(pipeline_of(masks)));
  EXPECT_NO_THROW(require_supported(pipeline_of(masks)));
  EXPECT_THAT([&] { require_supported(pipeline_of(masks, {"strict=true"})); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("load_instance_masks")));
  EXPECT_THAT([&] { check(pipeline_of(masks, {"strict=true"})); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("load_instance_masks")));
}

TEST(Effective, DifferencesNameTheFields) {
  const auto before = pipeline_of("train_config { batch_size: 8 num_steps: 3 }");
  const auto after = pipeline_of("train_config { batch_size: 16 num_steps: 3 optimizer { adam_optimizer {} } }");
  EXPECT_EQ(differences(*before.message, *before.message), "");
  const std::string lines = differences(*before.message, *after.message);
  EXPECT_THAT(lines, HasSubstr("modified: train_config.batch_size: 8 -> 16\n"));
  EXPECT_THAT(lines, HasSubstr("added: train_config.optimizer:"));
  EXPECT_THAT(lines, Not(HasSubstr("num_steps")));
}

TEST(Deprecated, FieldsAreMappedOrListedOnce) {
  const auto pipeline = pipeline_of(
      "train_config { from_detection_checkpoint: true use_bfloat16: true sync_replicas: true }\n"
      "eval_config { num_examples: 8000 }\ntrain_input_reader { queue_capacity: 3 }\n");
  const auto remarks = deprecated_fields(pipeline);
  EXPECT_THAT(paths(remarks), ElementsAre("train_config.sync_replicas", "train_config.from_detection_checkpoint",
                                          "train_config.use_bfloat16", "train_input_reader.queue_capacity",
                                          "eval_config.num_examples"));
  EXPECT_THAT(
      remarks[1].line(),
      HasSubstr(
          "p.config:1: train_config.from_detection_checkpoint: is read as fine_tune_checkpoint_type: \"detection\""));
  EXPECT_EQ(fine_tune_checkpoint_type(pipeline.message->train_config()), "detection");
  EXPECT_EQ(precision(pipeline.message->train_config()),
            has_bfloat16_arithmetic() ? proto::TrainConfig::BF16 : proto::TrainConfig::FP32);
}

TEST(Deprecated, WhatUseBfloat16BecomesIsSaidForGpusAsWell) {
  const auto said = [](const std::string& text) {
    return deprecated_fields(pipeline_of("train_config { " + text + " }")).at(0).message;
  };
  EXPECT_THAT(said("use_bfloat16: true"), HasSubstr("is read as precision: BF16"));
  EXPECT_EQ(has_bfloat16_arithmetic(), said("use_bfloat16: true") == "is read as precision: BF16");
  EXPECT_EQ(said("use_bfloat16: false"), "is ignored: false chooses no precision; see precision")
      << "it is TF32 on a GPU and FP32, or AUTO, on a CPU";
  EXPECT_EQ(said("use_bfloat16: true precision: FP16"), "is ignored: precision is set");
}

TEST(Deprecated, WhatNothingReadsIsListed) {
  const auto pipeline = pipeline_of(
      "model { ssd { loss { classification_loss { weighted_sigmoid { anchorwise_output: true } } }\n"
      "  post_processing { batch_non_max_suppression { use_cpu_nms: true use_partitioned_nms: true } } } }\n"
      "train_config { run_fine_tune_checkpoint_dummy_computation: true retain_original_images: true\n"
      "  summarize_gradients: true }\n"
      "train_input_reader { shuffle_buffer_size: 3 filenames_shuffle_buffer_size: 3 read_block_length: 3\n"
      "  include_source_id: true frame_index: 1 }\n"
      "eval_config { eval_interval_secs: 5 save_graph: true eval_master: \"a\" retain_original_images: true }\n");
  const auto remarks = deprecated_fields(pipeline);
  EXPECT_EQ(remarks.size(), 15u);
  for (const auto& remark : remarks) EXPECT_THAT(remark.message, HasSubstr("is ignored: ")) << remark.path;
}

TEST(Unsupported, WhatIsReplacedIsListedAndStrictRefusesIt) {
  const std::string twice = "model { ssd {} } train_config { batch_size: 2 batch_size: 4 }";
  EXPECT_THAT(paths(unsupported_choices(pipeline_of(twice)).listed), ElementsAre("train_config.batch_size"));
  EXPECT_NO_THROW(check(pipeline_of(twice)));
  EXPECT_THROW(check(pipeline_of(twice, {"strict=true"})), ConfigError);
}

TEST(Unsupported, WhatWouldChangeNumbersIsRefusedAndTheRestIsListed) {
  const auto pipeline = pipeline_of(
      "model { ssd { return_raw_detections_during_predict: true box_coder { keypoint_box_coder { num_keypoints: 2 } } "
      "} }\n"
      "train_input_reader { expand_labels_hierarchy: true keypoint_type_weight: 2 load_instance_masks: true }\n"
      "eval_config { force_no_resize: true keypoint_edge { start: 0 end: 1 } eval_instance_masks: true }\n");
  const Unsupported found = unsupported_choices(pipeline);
  EXPECT_THAT(paths(found.refused),
              UnorderedElementsAre("train_input_reader.expand_labels_hierarchy", "eval_config.force_no_resize",
                                   "model.ssd.box_coder.keypoint_box_coder.num_keypoints"));
  EXPECT_THAT(paths(found.listed),
              UnorderedElementsAre("model.ssd.return_raw_detections_during_predict",
                                   "train_input_reader.keypoint_type_weight", "train_input_reader.load_instance_masks",
                                   "eval_config.keypoint_edge", "eval_config.eval_instance_masks"));
}

TEST(Resolve, PrecisionIsChosenByTheMachineOnlyWhereTheConfigLeavesItToIt) {
  const auto choice = [](const std::string& text, bool on_gpu) {
    return precision(pipeline_of("train_config { " + text + " }").message->train_config(), on_gpu);
  };
  const bool has_choice = has_bfloat16_arithmetic();
  EXPECT_EQ(choice("", false), proto::TrainConfig::FP32);
  EXPECT_EQ(choice("precision: AUTO", false), has_choice ? proto::TrainConfig::AUTO : proto::TrainConfig::FP32);
  EXPECT_EQ(choice("precision: AUTO use_bfloat16: true", false),
            has_choice ? proto::TrainConfig::BF16 : proto::TrainConfig::FP32);
  EXPECT_EQ(choice("precision: FP16", false), proto::TrainConfig::FP16);
  EXPECT_EQ(choice("", true), proto::TrainConfig::TF32);
  EXPECT_EQ(choice("precision: AUTO", true), proto::TrainConfig::TF32);
  EXPECT_EQ(choice("precision: FP32", true), proto::TrainConfig::FP32);
  EXPECT_EQ(choice("use_bfloat16: true", true), proto::TrainConfig::BF16);
}

TEST(Resolve, ArithmeticFollowsTheExtractorTheVersionOrTheField) {
  using Config = proto::TrainEvalPipelineConfig;
  auto choice = [](const std::string& text) { return arithmetic(*pipeline_of(text).message).value; };
  EXPECT_EQ(choice(""), Config::TF1);
  EXPECT_EQ(choice("model { ssd { feature_extractor { type: 'ssd_mobilenet_v1' } } }"), Config::TF1);
  EXPECT_EQ(choice("model { ssd { feature_extractor { type: 'ssd_mobilenet_v2_keras' } } }"), Config::TF2);
  EXPECT_EQ(choice("model { center_net {} }"), Config::TF2);
  EXPECT_EQ(choice("train_config { fine_tune_checkpoint_version: V2 }"), Config::TF2);
  EXPECT_EQ(choice("train_config { fine_tune_checkpoint_version: V2 } arithmetic: TF1"), Config::TF1);
}

TEST(Resolve, TheNumberOfClassesIsThatOfTheChosenModelOrOfTheFirstLabelMapThatIsThere) {
  const TempDir folder;
  write_file(folder / "seven.pbtxt", "item { id: 7 name: 'seven' }");
  write_file(folder / "two.pbtxt", "item { id: 2 name: 'two' }");
  const auto reader = [&](const char* name) { return " { label_map_path: '" + folder / name + "' }"; };
  const std::string seven = " eval_input_reader" + reader("seven.pbtxt"),
                    two = " train_input_reader" + reader("two.pbtxt"),
                    missing = " train_input_reader" + reader("missing.pbtxt");
  const auto derived = [](const std::string& text) {
    const auto pipeline = pipeline_of(text);
    derive_num_classes(*pipeline.message);
    return num_classes(*pipeline.message);
  };
  EXPECT_EQ(derived(seven), 0) << "no model";
  EXPECT_EQ(derived("model { experimental_model { } }" + seven), 0) << "a model that has no such field";
  EXPECT_EQ(derived("model { ssd { } }"), 0) << "no label map";
  EXPECT_EQ(derived("model { ssd { } }" + seven), 7);
  EXPECT_EQ(derived("model { ssd { } }" + two + seven), 2);
  EXPECT_EQ(derived("model { ssd { } }" + missing + seven), 7);
  EXPECT_EQ(derived("model { faster_rcnn { num_classes: 3 } }" + seven), 3);
  EXPECT_EQ(derived("model { faster_rcnn { } }" + seven), 7);
}

TEST(Resolve, BoxRowsComeFromTheReaderThenFromTheTrainConfig) {
  auto rows = [](const std::string& text) {
    const auto pipeline = pipeline_of(text);
    return max_number_of_boxes(*pipeline.message, pipeline.message->train_input_reader());
  };
  EXPECT_EQ(rows(""), 100);
  EXPECT_EQ(rows("train_config { max_number_of_boxes: 50 }"), 100) << "what the original keeps";
  EXPECT_EQ(rows("train_config { max_number_of_boxes: 150 }"), 150);
  EXPECT_EQ(rows("train_config { max_number_of_boxes: 50 } train_input_reader { max_number_of_boxes: 0 }"), 0);
}

TEST(StaticShapes, EachDynamicPartIsNamedWithItsSubstitute) {
  const auto parts = dynamic_parts(pipeline_of(
      "model { ssd { image_resizer { keep_aspect_ratio_resizer { min_dimension: 640 max_dimension: 640 } }\n"
      "  matcher { bipartite_matcher {} } loss { hard_example_miner {} } similarity_calculator { ioa_similarity {} } } "
      "}\n"
      "train_input_reader { drop_remainder: false }"));
  std::vector<std::string> fields, in_step;
  for (const auto& part : parts) fields.push_back(part.remark.path);
  for (const auto& part : parts)
    if (part.in_step) in_step.push_back(part.remark.path);
  EXPECT_THAT(in_step,
              ElementsAre("model.ssd.image_resizer.keep_aspect_ratio_resizer", "model.ssd.loss.hard_example_miner",
                          "model.ssd.matcher.bipartite_matcher", "model.ssd.similarity_calculator"));
  EXPECT_THAT(fields,
              ElementsAre("model.ssd.image_resizer.keep_aspect_ratio_resizer", "model.ssd.loss.hard_example_miner",
                          "model.ssd.matcher.bipartite_matcher", "model.ssd.similarity_calculator",
                          "model.ssd.post_processing.batch_non_max_suppression.use_static_shapes",
                          "train_config.unpad_groundtruth_tensors", "train_input_reader.drop_remainder"));
  EXPECT_EQ(parts[0].substitute, "pad_to_max_dimension: true");
  EXPECT_THAT(parts[1].substitute, HasSubstr("weighted_sigmoid_focal"));
  EXPECT_THAT(parts[2].substitute, HasSubstr("argmax_matcher"));
}

TEST(StaticShapes, AFixedPipelineIsStaticFromEndToEnd) {
  EXPECT_THAT(
      dynamic_parts(pipeline_of("model { ssd { image_resizer { fixed_shape_resizer {} } matcher { argmax_matcher {} }\n"
                                "  post_processing { batch_non_max_suppression { use_static_shapes: true } } } }\n"
                                "train_config { unpad_groundtruth_tensors: false }")),
      IsEmpty());
}

TEST(Resolve, ClassifiersAreJudgedByTheirAccuracyWhereNothingElseIsNamed) {
  const auto metrics_of = [](const std::string& model, const std::string& watchers) {
    const auto pipeline = pipeline_of("model { " + model + " } train_config { " + watchers + " }");
    EXPECT_EQ(default_metric(*pipeline.message),
              pipeline.message->model().has_ssd() ? "coco_detection_metrics" : "image_classification_metrics");
    derive_metrics(*pipeline.message);
    const proto::TrainConfig& train = pipeline.message->train_config();
    return train.checkpoint().keep_best().metric() + ", " + train.early_stopping().metric();
  };
  const std::string of_boxes = "DetectionBoxes_Precision/mAP", accuracy = "ImageClassification/Accuracy";
  const std::string unnamed = "checkpoint { keep_best {} } early_stopping {}";
  EXPECT_EQ(metrics_of("image_classifier {}", unnamed), accuracy + ", " + accuracy);
  EXPECT_EQ(
      metrics_of("image_classifier {}", "checkpoint { keep_best { metric: 'Loss/total_loss' } } early_stopping {}"),
      "Loss/total_loss, " + accuracy);
  EXPECT_EQ(metrics_of("ssd {}", unnamed), of_boxes + ", " + of_boxes);
}

TEST(Validate, RefusesWhatDoesNotGoWithClassifiersOfPictures) {
  const auto error = [](const std::string& more) { return validation_error("model { image_classifier {} } " + more); };
  EXPECT_EQ(error(""), "");
  EXPECT_THAT(error("train_config { merge_multiple_label_boxes: true }"),
              HasSubstr("train_config.merge_multiple_label_boxes: does not go with model.image_classifier"));
  EXPECT_THAT(error("train_config { use_multiclass_scores: true } train_input_reader { load_multiclass_scores: true }"),
              HasSubstr("train_config.use_multiclass_scores: does not go with model.image_classifier"));
  const std::string mosaic = "train_config { data_augmentation_options { random_mosaic {} } }";
  EXPECT_THAT(error(mosaic), HasSubstr("train_config.data_augmentation_options[0].random_mosaic: does not go with"));
  EXPECT_EQ(validation_error(mosaic), "") << "detectors may";
  const std::string mixed = "train_config { data_augmentation_options { random_mix_up {} } } train_input_reader ";
  EXPECT_THAT(error(mixed + "{ max_number_of_boxes: 1 }"),
              HasSubstr("train_input_reader.max_number_of_boxes: must be at least 2 with random_mix_up"));
  EXPECT_EQ(error(mixed + "{ max_number_of_boxes: 2 }"), "");
}

TEST(Validate, LabelsOfPicturesAreOfRecordsAndTakeNoOtherObjects) {
  const std::string records = "train_input_reader { label_of_picture: true tf_record_input_reader { input_path: 'a' } ";
  EXPECT_EQ(validation_error(records + "}"), "");
  for (const auto& [field, value] :
       {std::pair("load_instance_masks", "true"), {"num_keypoints", "2"}, {"load_multiclass_scores", "true"}})
    EXPECT_THAT(validation_error(records + field + ": " + value + " }"),
                HasSubstr(std::string("train_input_reader.") + field + ": does not go with label_of_picture"));
  EXPECT_THAT(validation_error("train_input_reader { label_of_picture: true annotation_input_reader { format: FOLDERS "
                               "input: 'a' } }"),
              HasSubstr("train_input_reader.label_of_picture: is of a tf_record_input_reader alone"));
}

}  // namespace
}  // namespace osprey::config
