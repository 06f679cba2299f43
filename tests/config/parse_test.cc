#include "osprey/config/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/config/pipeline.h"
#include "osprey/protos/losses.pb.h"
#include "osprey/protos/optimizer.pb.h"

namespace osprey::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The errors of a pipeline config, "" where it has none.
std::string errors(const std::string& text) {
  try {
    parse_pipeline(text, "p.config");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Parse, FieldsKnowTheirFileLineAndColumn) {
  const auto pipeline =
      parse_pipeline("train_config {\n  batch_size: 8\n}\neval_input_reader { shuffle: true }\n", "p.config");
  const Origin origin = pipeline.sources->origin("train_config.batch_size");
  EXPECT_EQ(origin.kind, Origin::Kind::kFile);
  EXPECT_EQ(origin.source, "p.config");
  EXPECT_EQ(origin.line, 2);
  EXPECT_EQ(origin.column, 3);
  EXPECT_EQ(origin.text, "  batch_size: 8");
  EXPECT_EQ(pipeline.sources->origin("eval_input_reader[0].shuffle").line, 4);
  EXPECT_EQ(pipeline.sources->origin("train_config.num_steps").line, 1) << "an unset field is placed at its message";
  EXPECT_EQ(pipeline.sources->origin("graph_rewriter").kind, Origin::Kind::kDefault);
}

TEST(Parse, ElementsOfABracketedListKnowTheirOwnColumn) {
  const auto pipeline =
      parse_pipeline("train_config { freeze_variables: [\"a\",\n  \"b\"] freeze_variables: 'c' }", "p.config");
  EXPECT_EQ(pipeline.sources->origin("train_config.freeze_variables[1]").line, 2);
  EXPECT_EQ(pipeline.sources->origin("train_config.freeze_variables[1]").column, 3);
  EXPECT_EQ(pipeline.sources->origin("train_config.freeze_variables[2]").column, 8);
}

TEST(Parse, NodesReportWithLineAndCaret) {
  const auto parsed =
      parse<proto::Loss>("classification_loss {\n\tweighted_sigmoid_focal {\n\t\tgamma: -1\n\t}\n}", "loss");
  const auto loss = parsed.node().child("classification_loss", parsed.message->classification_loss());
  const auto focal = loss.child("weighted_sigmoid_focal", loss->weighted_sigmoid_focal());
  try {
    focal.fail("gamma", "must be >= 0, got -1");
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "loss:3:3: classification_loss.weighted_sigmoid_focal.gamma: must be >= 0, got -1\n"
                 "\t\tgamma: -1\n\t\t^");
  }
}

TEST(Parse, AMisspeltFieldIsShownWithItsNeighbour) {
  EXPECT_EQ(errors("model {\n  ssd {\n    num_clases: 3\n  }\n}\n"),
            "p.config:3:5: model.ssd.num_clases: Ssd has no such field; did you mean \"num_classes\"?\n"
            "    num_clases: 3\n    ^");
}

TEST(Parse, EveryErrorOfTheTextIsReportedInOneRun) {
  const std::string all = errors(
      "model {\n  ssd {\n    num_clases: 3\n"
      "    image_resizer { fixed_shape_resizer { height: \"300\" resize_method: BILINAR } }\n  }\n}\n"
      "train_config {\n  batch_size: -2\n  num_steps 100\n  sync_replicas: yes\n  batch_size: 4\n}\n");
  EXPECT_THAT(all, HasSubstr("p.config:3:5: model.ssd.num_clases: "));
  EXPECT_THAT(all, HasSubstr("p.config:4:51: model.ssd.image_resizer.fixed_shape_resizer.height: expected an integer, "
                             "found \"300\""));
  EXPECT_THAT(all, HasSubstr("model.ssd.image_resizer.fixed_shape_resizer.resize_method: ResizeType has no value "
                             "\"BILINAR\"; did you mean \"BILINEAR\"?"));
  EXPECT_THAT(all,
              HasSubstr("p.config:8:16: train_config.batch_size: must be an integer from 0 to 4294967295, got -2"));
  EXPECT_THAT(all, HasSubstr("p.config:9:13: train_config.num_steps: expected ':' and a value, found '100'"));
  EXPECT_THAT(all, HasSubstr("p.config:10:18: train_config.sync_replicas: expected true or false, found 'yes'"));
  EXPECT_EQ(count(all, "p.config:"), 6) << all;
}

TEST(Parse, ReadingGoesOnBehindASyntaxError) {
  const std::string all = errors("train_config {\n  batch_size: : 3\n  num_stepz: 4\n}\nmodel { ?? }\neval_confg {}\n");
  EXPECT_THAT(all, AllOf(HasSubstr("p.config:2:15:"), HasSubstr("p.config:3:3: train_config.num_stepz"),
                         HasSubstr("p.config:5:9: model: expected the name of a field, found '?'"),
                         HasSubstr("p.config:6:1: eval_confg: TrainEvalPipelineConfig has no such field; did you mean "
                                   "\"eval_config\"?")));
  EXPECT_EQ(count(all, "p.config:"), 4) << all;
}

TEST(Parse, AForgottenClosingBraceIsFoundWhereTheNextBlockBegins) {
  const std::string all = errors("model {\n  ssd {\n    num_classes: 3\n  \n}\ntrain_config {\n  batch_size: 2\n}\n");
  EXPECT_EQ(count(all, "p.config:"), 1) << all;
  EXPECT_THAT(all, HasSubstr("p.config:6:1: train_config: belongs to the top level, but the brace opened at line 1 is "
                             "not closed; its indentation points at the one opened at line 2"));
}

TEST(Parse, ABraceNeverClosedIsNamedByItsLine) {
  const std::string all = errors("model {\n  ssd {\n    num_classes: 3\n  }\n");
  EXPECT_EQ(count(all, "p.config:"), 1) << all;
  EXPECT_THAT(all, HasSubstr("model: the text ends here, but the brace opened at line 1 is not closed"));
}

TEST(Parse, AClosingBraceTooManyIsShown) {
  EXPECT_THAT(errors("model {\n}\n}\n"), HasSubstr("p.config:3:1: syntax: closing brace without an opening one\n}\n^"));
}

TEST(Parse, TypographicQuotesAreNamed) {
  const std::string all = errors("train_config {\n  fine_tune_checkpoint: \u201c/a/b\u201d\n  batch_size: 4\n}\n");
  EXPECT_EQ(count(all, "p.config:"), 1) << all;
  EXPECT_THAT(all, HasSubstr("p.config:2:25: syntax: typographic quotation mark \u201c: write a plain \" instead"));
}

TEST(Parse, WindowsPathsGetAHint) {
  EXPECT_THAT(errors("train_config { fine_tune_checkpoint: \"C:\\Data\\x\" }"),
              AllOf(HasSubstr("'\\D' is not a valid escape"), HasSubstr("write a Windows path with / or with \\\\")));
}

TEST(Parse, FieldsOfOtherReleasesOfTheOriginalAreNamedAndIgnored) {
  const auto parsed = parse<proto::TrainEvalPipelineConfig>(
      "model { ssd { num_classes: 3 feature_extractor { batch_norm_trainable: true min_depth: 8 } } }", "p.config");
  EXPECT_EQ(parsed.message->model().ssd().feature_extractor().min_depth(), 8);
  ASSERT_EQ(parsed.sources->without_effect().size(), 1u);
  EXPECT_EQ(
      parsed.sources->without_effect()[0].line(),
      "p.config:1: model.ssd.feature_extractor.batch_norm_trainable: is ignored: train_config.freeze_batchnorm says "
      "whether batch norms are trained");
}

// As the original merges a text into an empty message.
TEST(Parse, OfWhatIsSetTwiceTheLastCountsAndTheOtherIsNamed) {
  const auto parsed = parse<proto::TrainEvalPipelineConfig>(
      "train_config {\n  data_augmentation_options {\n    random_horizontal_flip {}\n    random_crop_image {}\n  }\n"
      "  batch_size: 2\n}\ntrain_config {\n  batch_size: 4\n  data_augmentation_options { random_rotation90 {} }\n}\n",
      "p.config");
  const proto::TrainConfig& train = parsed.message->train_config();
  EXPECT_TRUE(train.data_augmentation_options(0).has_random_crop_image());
  EXPECT_EQ(train.batch_size(), 4u);
  EXPECT_EQ(train.data_augmentation_options_size(), 2) << "messages are merged";
  EXPECT_EQ(parsed.sources->origin("train_config.data_augmentation_options[0]").line, 2);
  EXPECT_EQ(parsed.sources->origin("train_config.data_augmentation_options[1]").line, 10);
  ASSERT_EQ(parsed.sources->without_effect().size(), 2u);
  EXPECT_EQ(parsed.sources->without_effect()[0].line(),
            "p.config:3: train_config.data_augmentation_options[0].random_horizontal_flip: is replaced by "
            "train_config.data_augmentation_options[0].random_crop_image at line 4");
  EXPECT_EQ(parsed.sources->without_effect()[1].line(),
            "p.config:6: train_config.batch_size: is replaced by train_config.batch_size at line 9");
}

TEST(Parse, AMessageWhereANumberBelongsAndTheOtherWayRound) {
  const std::string all = errors("train_config {\n  batch_size { a: 1 }\n  optimizer: 3\n  num_steps: { b: 2 }\n}");
  EXPECT_THAT(all, AllOf(HasSubstr(":2:14: train_config.batch_size: is an integer >= 0, not a message"),
                         HasSubstr(":3:14: train_config.optimizer: is a message, Optimizer: expected '{', found '3'"),
                         HasSubstr(":4:14: train_config.num_steps: expected an integer >= 0, found '{'")));
  EXPECT_EQ(count(all, "p.config:"), 3) << all;
}

TEST(Parse, APathWithoutQuotesIsOneError) {
  const std::string all = errors("train_config {\n  fine_tune_checkpoint: /a/b/model.ckpt\n  batch_size: 2\n}");
  EXPECT_EQ(count(all, "p.config:"), 1) << all;
  EXPECT_THAT(all, HasSubstr("train_config.fine_tune_checkpoint: expected a string in quotes, found '/'"));
}

TEST(Parse, TheTextDialectOfThePublicSnippetsIsRead) {
  // `field {` and `field: {`, commas behind values, numbers that begin with a point.
  const auto pipeline = parse_pipeline(
      "model: {\n ssd {\n  box_predictor { convolutional_box_predictor { conv_hyperparams {\n"
      "   activation: RELU_6,\n   initializer: { truncated_normal_initializer { mean: 0.0 stddev: 0.03 } }\n"
      "   batch_norm { train: true, scale: true, center: true, decay: 0.9997, epsilon: 0.001, } } } } } }\n"
      "train_config: { optimizer { momentum_optimizer: { learning_rate: { cosine_decay_learning_rate {\n"
      "  learning_rate_base: .04\n  total_steps: 25000\n  warmup_learning_rate: .013333\n  warmup_steps: 2000 } }\n"
      "  momentum_optimizer_value: 0.9 } } }\n"
      "eval_input_reader: [ { shuffle: false; }, < num_readers: 1 > ]\n",
      "p.config");
  const auto& hyperparams =
      pipeline.message->model().ssd().box_predictor().convolutional_box_predictor().conv_hyperparams();
  EXPECT_TRUE(hyperparams.batch_norm().scale());
  EXPECT_FLOAT_EQ(hyperparams.batch_norm().decay(), 0.9997f);
  EXPECT_EQ(hyperparams.activation(), proto::Hyperparams::RELU_6);
  const auto& rate =
      pipeline.message->train_config().optimizer().momentum_optimizer().learning_rate().cosine_decay_learning_rate();
  EXPECT_FLOAT_EQ(rate.learning_rate_base(), 0.04f);
  EXPECT_FLOAT_EQ(rate.warmup_learning_rate(), 0.013333f);
  EXPECT_EQ(pipeline.message->eval_input_reader_size(), 2);
  EXPECT_EQ(pipeline.message->eval_input_reader(1).num_readers(), 1u);
}

TEST(Parse, DeepNestingIsRefusedAndNeverOverflows) {
  auto nested = [](const std::string& open, int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open;
    return text + std::string(depth, '}');
  };
  EXPECT_THAT(errors(nested("unknown_field {", 100000)),
              HasSubstr("unknown_field: TrainEvalPipelineConfig has no such"));
  EXPECT_THAT(errors(std::string(100000, '{')), HasSubstr("expected the name of a field"));
  const std::string inside = "[type.googleapis.com/google.protobuf.Any] {";
  const std::string start = "train_config { data_augmentation_options { custom {";
  EXPECT_EQ(errors(start + nested(inside, 50) + "}}}"), "");
  EXPECT_THAT(errors(start + nested(inside, 30000) + "}}}"), HasSubstr("messages nest more than 100 deep"));
}

TEST(Parse, StrangeTextsAreRefusedAndNeverCrash) {
  EXPECT_THAT(errors(std::string("model {\0}", 9)), HasSubstr("p.config: is not a text file: byte 7 is zero"));
  EXPECT_EQ(errors(""), "");
  EXPECT_EQ(errors("\xef\xbb\xbf# only a comment"), "");
  EXPECT_EQ(errors("model {\r\n}\r\n"), "");
  EXPECT_THAT(errors("model\u00a0{ }"), HasSubstr("no-break space (U+00A0)"));
  EXPECT_NE(errors("\x01\x02\xff\xfe"), "");
  EXPECT_NE(errors("model: \"unclosed\n}"), "");
  EXPECT_LT(errors(std::string(100000, '?')).size(), 100000u);
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "no_field_" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(errors(lines), HasSubstr("and 950 more"));
}

TEST(Parse, MutatedTextsNeverCrashAndAlwaysSayWhatIsWrong) {
  const std::string good =
      "model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 300 width: 300 } }\n"
      "  feature_extractor { type: \"ssd_mobilenet_v1\" depth_multiplier: 1.0 } } }\n"
      "train_config { batch_size: 8 freeze_variables: ['a', 'b'] fine_tune_checkpoint: \"/a\\\\b\" }\n"
      "eval_input_reader < shuffle: false > # end\n";
  const std::string alphabet = "{}<>[]:;,\"'\\#-.0x_ \n\xff\xe2\x80";
  uint64_t state = 1;
  auto random = [&](size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state >> 33) % n);
  };
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (size_t edits = 1 + random(4); edits > 0; --edits) {
      const size_t at = random(text.size());
      switch (random(4)) {
        case 0:
          text.erase(at, 1 + random(5));
          break;
        case 1:
          text.insert(at, 1, alphabet[random(alphabet.size())]);
          break;
        case 2:
          text[at] = alphabet[random(alphabet.size())];
          break;
        default:
          text.insert(at, text.substr(random(text.size()), random(30)));
      }
    }
    try {
      parse_pipeline(text, "p.config");
    } catch (const ConfigError& error) {
      ASSERT_THAT(error.what(), ::testing::ContainsRegex("p.config:[0-9]+:[0-9]+: [^ ]+: .")) << text;
    }
  }
}

TEST(LoadPipeline, AMissingOrEmptyFileIsAUsageError) {
  try {
    load_pipeline("/nowhere/p.config");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    EXPECT_STREQ(error.what(), "/nowhere/p.config: the pipeline config cannot be read: No such file or directory");
  }
  EXPECT_THROW(load_pipeline("/tmp"), ConfigError);
  EXPECT_THROW(load_pipeline("/dev/null"), ConfigError);
}

}  // namespace
}  // namespace osprey::config
