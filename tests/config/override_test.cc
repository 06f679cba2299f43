#include "osprey/config/override.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/config/pipeline.h"

namespace osprey::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kText =
    "model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 300 width: 300 } } } }\n"
    "train_config { batch_size: 8 freeze_variables: 'a' freeze_variables: 'b'\n"
    "  optimizer { momentum_optimizer { momentum_optimizer_value: 0.9 } } }\n"
    "eval_input_reader { shuffle: true }\n";

Pipeline with(const std::vector<std::string>& assignments) { return parse_pipeline(kText, "p.config", assignments); }

std::string override_error(const std::vector<std::string>& assignments) {
  try {
    with(assignments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Override, NumbersStringsBoolsAndEnumsByName) {
  const auto pipeline =
      with({"train_config.batch_size=16", "train_config.fine_tune_checkpoint=/a b/\"c\"\\d",
            "eval_input_reader[0].shuffle=false", "train_config.precision=BF16", "model.ssd.num_classes=0x5",
            "train_config.gradient_clipping_by_norm=.5", "train_config.fine_tune_checkpoint_type=\"detection\""});
  EXPECT_EQ(pipeline.message->train_config().batch_size(), 16u);
  EXPECT_EQ(pipeline.message->train_config().fine_tune_checkpoint(), "/a b/\"c\"\\d");
  EXPECT_EQ(pipeline.message->train_config().fine_tune_checkpoint_type(), "detection");
  EXPECT_FALSE(pipeline.message->eval_input_reader(0).shuffle());
  EXPECT_EQ(pipeline.message->train_config().precision(), proto::TrainConfig::BF16);
  EXPECT_EQ(pipeline.message->model().ssd().num_classes(), 5);
  EXPECT_FLOAT_EQ(pipeline.message->train_config().gradient_clipping_by_norm(), 0.5);
}

TEST(Override, TheAssignmentBecomesTheOrigin) {
  const auto pipeline = with({"train_config.batch_size=16"});
  const Origin origin = pipeline.sources->origin("train_config.batch_size");
  EXPECT_EQ(origin.kind, Origin::Kind::kOverride);
  EXPECT_EQ(origin.source, "--set train_config.batch_size=16");
  EXPECT_EQ(pipeline.sources->origin("train_config.freeze_variables[0]").kind, Origin::Kind::kFile);
}

TEST(Override, ListsAreChangedByElementAppendedToReplacedAndCleared) {
  auto frozen = [](const std::vector<std::string>& assignments) {
    const auto pipeline = with(assignments);
    const auto& list = pipeline.message->train_config().freeze_variables();
    return std::vector<std::string>(list.begin(), list.end());
  };
  EXPECT_THAT(frozen({"train_config.freeze_variables[0]=x"}), ElementsAre("x", "b"));
  EXPECT_THAT(frozen({"train_config.freeze_variables[2]=x"}), ElementsAre("a", "b", "x"));
  EXPECT_THAT(frozen({"train_config.freeze_variables+=x", "train_config.freeze_variables+=y"}),
              ElementsAre("a", "b", "x", "y"));
  EXPECT_THAT(frozen({"train_config.freeze_variables=x"}), ElementsAre("x"));
  EXPECT_THAT(frozen({"train_config.freeze_variables=['x', 'y']"}), ElementsAre("x", "y"));
  EXPECT_THAT(frozen({"train_config.freeze_variables="}), ElementsAre());
  EXPECT_THAT(override_error({"train_config.freeze_variables[3]=x"}),
              HasSubstr("index 3 is out of range: the list has 2 elements, and [2] appends"));
}

TEST(Override, ElementsThatAreMessagesAreAppendedToo) {
  const auto pipeline = with({"eval_input_reader[1].shuffle=true", "eval_input_reader+=label_map_path: 'm'",
                              "train_config.data_augmentation_options+={random_horizontal_flip {}}"});
  ASSERT_EQ(pipeline.message->eval_input_reader_size(), 3);
  EXPECT_EQ(pipeline.message->eval_input_reader(2).label_map_path(), "m");
  EXPECT_TRUE(pipeline.message->train_config().data_augmentation_options(0).has_random_horizontal_flip());
  EXPECT_EQ(pipeline.sources->origin("eval_input_reader[2].label_map_path").kind, Origin::Kind::kOverride);
}

TEST(Override, SettingAMemberOfAOneofSwitchesIt) {
  const auto pipeline =
      with({"train_config.optimizer.adam_optimizer.epsilon=0.1",
            "model.ssd.image_resizer.keep_aspect_ratio_resizer={min_dimension: 600 max_dimension: 1024}"});
  EXPECT_TRUE(pipeline.message->train_config().optimizer().has_adam_optimizer());
  EXPECT_EQ(pipeline.message->model().ssd().image_resizer().keep_aspect_ratio_resizer().min_dimension(), 600);
  EXPECT_FALSE(pipeline.message->model().ssd().image_resizer().has_fixed_shape_resizer());
  EXPECT_EQ(pipeline.sources->find("model.ssd.image_resizer.fixed_shape_resizer.height"), nullptr);
  EXPECT_EQ(pipeline.sources->find("train_config.optimizer.momentum_optimizer"), nullptr);
}

TEST(Override, NothingBehindTheSignClearsTheField) {
  const auto pipeline = with({"train_config.optimizer=", "train_config.batch_size=", "graph_rewriter="});
  EXPECT_FALSE(pipeline.message->train_config().has_optimizer());
  EXPECT_FALSE(pipeline.message->train_config().has_batch_size());
  EXPECT_EQ(pipeline.sources->find("train_config.batch_size"), nullptr);
}

TEST(Override, TheOnlyElementOfAListNeedsNoIndex) {
  const auto pipeline = with({"eval_input_reader.label_map_path=m"});
  EXPECT_EQ(pipeline.message->eval_input_reader(0).label_map_path(), "m");
  EXPECT_EQ(pipeline.sources->origin("eval_input_reader[0].label_map_path").kind, Origin::Kind::kOverride);
}

TEST(Override, ErrorsNameTheAssignmentTheFieldAndTheNearestName) {
  EXPECT_EQ(override_error({"train_config.batchsize=2"}),
            "--set train_config.batchsize=2: train_config.batchsize: TrainConfig has no such field; did you mean "
            "\"batch_size\"?");
  EXPECT_THAT(override_error({"trainconfig.batch_size=2"}), HasSubstr("did you mean \"train_config\"?"));
  EXPECT_THAT(override_error({"batch_size=2"}),
              HasSubstr("did you mean \"train_config.batch_size\" or \"eval_config.batch_size\"?"));
  EXPECT_THAT(override_error({"train_config.batch_size=two"}),
              HasSubstr("train_config.batch_size: expected an integer >= 0, found 'two'"));
  EXPECT_THAT(override_error({"train_config.batch_size=2 num_steps: 4"}), HasSubstr("is not one value of this field"));
  EXPECT_THAT(override_error({"train_config.precision=BF17"}), HasSubstr("did you mean \"BF16\"?"));
  EXPECT_THAT(override_error({"train_config.optimizer={adam_optimiser {}}"}),
              HasSubstr("train_config.optimizer.adam_optimiser: Optimizer has no such field"));
  EXPECT_THAT(override_error({"eval_input_reader+=shuffle: true", "eval_input_reader.shuffle=1"}),
              HasSubstr("is a list of 2: name an element, as in eval_input_reader[0]"));
  EXPECT_THAT(override_error({"train_config.data_augmentation_options.random_horizontal_flip={}"}),
              HasSubstr("is a list of 0: name an element, as in data_augmentation_options[0]"));
  EXPECT_THAT(override_error({"eval_input_reader[0].shuffel=1"}), HasSubstr("eval_input_reader[0].shuffel"));
  EXPECT_THAT(override_error({"eval_input_reader[0]={shuffel: 1}"}), HasSubstr(": eval_input_reader[0].shuffel: "));
  EXPECT_THAT(override_error({"eval_input_reader[x].shuffle=1"}), HasSubstr("'[x]' is not an index"));
  EXPECT_THAT(override_error({"train_config.batch_size[0]=1"}), HasSubstr("takes no index"));
  EXPECT_THAT(override_error({"train_config.batch_size+=1"}), HasSubstr("+= is for lists"));
  EXPECT_THAT(override_error({"train_config.freeze_variables+="}),
              HasSubstr("train_config.freeze_variables: nothing stands behind +="));
  EXPECT_THAT(override_error({"train_config.batch_size.x=1"}), HasSubstr("it has no fields"));
  for (const char* text : {"", "=", "=3", "+=3", "train_config", ".=1", "a..b=1", "train_config.=1", "train_config[=1",
                           "train_config.freeze_variables[]=1"})
    EXPECT_THAT(override_error({text}), HasSubstr("--set ")) << text;
}

TEST(Override, AllWrongAssignmentsAreReportedTogether) {
  EXPECT_THAT(override_error({"train_config.batchsize=2", "train_config.batch_size=4", "train_config.num_step=4"}),
              AllOf(HasSubstr("batchsize"), HasSubstr("num_step=4")));
}

TEST(Override, ATextIsMergedBeforeTheAssignments) {
  const auto pipeline = parse_pipeline(kText, "p.config",
                                       Overrides{"train_config { batch_size: 2 num_steps: 9 freeze_variables: 'c' }\n"
                                                 "model { ssd { image_resizer { identity_resizer {} } } }",
                                                 {"train_config.num_steps=10"}});
  EXPECT_EQ(pipeline.message->train_config().batch_size(), 2u);
  EXPECT_EQ(pipeline.message->train_config().num_steps(), 10u);
  EXPECT_EQ(pipeline.message->train_config().freeze_variables_size(), 3);
  EXPECT_EQ(pipeline.sources->origin("train_config.batch_size").source, "--config_override");
  EXPECT_EQ(pipeline.sources->origin("train_config.freeze_variables[2]").source, "--config_override");
  EXPECT_EQ(pipeline.sources->origin("train_config.freeze_variables[1]").source, "p.config");
  EXPECT_EQ(pipeline.sources->find("model.ssd.image_resizer.fixed_shape_resizer.height"), nullptr);
}

}  // namespace
}  // namespace osprey::config
