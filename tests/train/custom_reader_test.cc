// A reader of another program, found by the message in its `custom` field: docs/records.md shows the same steps.
#include <gmock/gmock.h>
#include <google/protobuf/wrappers.pb.h>

#include "osprey/base/error.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/data/fake_source.h"
#include "osprey/train/job.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

/// Made-up pictures; a google.protobuf.Int32Value says how many.
class Drawn final : public data::RecordSource {
 public:
  Drawn(const data::SourceOptions& options, int64_t count) : drawn_(data::make_fake_source(options, count)) {}
  std::optional<Batch> next() override {
    ++given;
    return drawn_->next();
  }
  void seek(int64_t index) override { drawn_->seek(index); }
  int64_t position() const override { return drawn_->position(); }
  int64_t num_examples() const override { return drawn_->num_examples(); }

  inline static int given = 0;

 private:
  std::unique_ptr<data::BatchSource> drawn_;
};

std::unique_ptr<data::RecordSource> make(const config::ConfigNode<google::protobuf::Int32Value>& node,
                                         const data::SourceOptions& options) {
  if (node->value() < 1) node.fail("value", "must be >= 1");
  return std::make_unique<Drawn>(options, node->value());
}
using data::RecordSource;
OSPREY_REGISTER(RecordSource, &make);

/// A pipeline whose reader is a message of google.protobuf with such a value.
config::Pipeline pipeline_with(const std::string& message, const std::string& value) {
  return config::load_pipeline(
      OSPREY_SOURCE_DIR "/configs/quickstart.config",
      {"train_input_reader={custom { [type.googleapis.com/google.protobuf." + message + "] { value: " + value + " } }}",
       "eval_input_reader=", "train_config.batch_size=2", "train_config.num_steps=2"});
}

TEST(CustomReader, TrainsARun) {
  const testing::TempDir folder;
  Drawn::given = 0;
  const RunOutcome outcome = train(pipeline_with("Int32Value", "6"), {.model_dir = folder.path()});
  EXPECT_EQ(outcome.steps, 2);
  EXPECT_GE(Drawn::given, 2);
  EXPECT_EQ(checkpoint::latest(folder.path())->step, 2);
}

TEST(CustomReader, TheSavedConfigShowsItsMessageAndGoesOn) {
  const testing::TempDir folder;
  train(pipeline_with("Int32Value", "6"), {.model_dir = folder.path()});
  const std::string saved = folder / "pipeline.config";
  EXPECT_THAT(testing::read_file(saved),
              ::testing::ContainsRegex("\\[type.googleapis.com/google.protobuf.Int32Value\\] \\{\n +value: 6\n"));
  const RunOutcome more = train(config::load_pipeline(saved, std::vector<std::string>{"train_config.num_steps=3"}),
                                {.model_dir = folder.path()});
  EXPECT_EQ(more.steps, 1);
}

TEST(CustomReader, ItsErrorsNameItsField) {
  const testing::TempDir folder;
  EXPECT_THAT(
      [&] { train(pipeline_with("Int32Value", "0"), {.model_dir = folder.path()}); },
      ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("train_input_reader.custom.value: must be >= 1")));
}

TEST(CustomReader, AMessageWithoutAReaderIsRefusedByName) {
  const testing::TempDir folder;
  EXPECT_THAT([&] { train(pipeline_with("StringValue", "''"), {.model_dir = folder.path()}); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("train_input_reader.custom")));
}

}  // namespace
}  // namespace osprey::train
