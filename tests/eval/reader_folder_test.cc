#include "osprey/eval/reader_folder.h"

#include <gmock/gmock.h>

#include "osprey/base/error.h"
#include "osprey/config/pipeline.h"

namespace osprey::eval {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string folder(const std::string& readers, int index) {
  const config::Pipeline pipeline = config::parse_pipeline(readers);
  return reader_folder(pipeline.root(), index, "run/eval").string();
}

TEST(ReaderFolder, TheFirstReaderHasTheFolderItselfAndOthersOneInIt) {
  const std::string readers =
      "eval_input_reader { name: 'day' } eval_input_reader { name: 'night' } eval_input_reader {}";
  EXPECT_EQ(folder(readers, 0), "run/eval");
  EXPECT_EQ(folder(readers, 1), "run/eval/night");
  EXPECT_EQ(folder(readers, 2), "run/eval/reader_2");
}

TEST(ReaderFolder, TwoReadersDoNotShareOne) {
  EXPECT_THAT(
      [] { folder("eval_input_reader {} eval_input_reader { name: 'a' }\neval_input_reader { name: 'a' }", 2); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr(":2:"), HasSubstr("eval_input_reader[2].name: 'a' is "
                                                                   "eval_input_reader[1], too"))));
  EXPECT_EQ(folder("eval_input_reader { name: 'a' } eval_input_reader { name: 'a' }", 1), "run/eval/a");
}

TEST(ReaderFolder, ANameThatCanBeNoFoldersIsRefused) {
  for (const std::string name : {".", "..", "../train", "a\\\\b"})
    EXPECT_THAT([&] { folder("eval_input_reader {} eval_input_reader { name: '" + name + "' }", 1); },
                ThrowsMessage<ConfigError>(HasSubstr("eval_input_reader[1].name: its results go to a folder")))
        << name;
}

TEST(ReaderFolder, MessagesNameTheReader) {
  const config::Pipeline pipeline = config::parse_pipeline("eval_input_reader {} eval_input_reader { name: 'night' }");
  EXPECT_EQ(reader_text(*pipeline.message, 0), "eval_input_reader[0]");
  EXPECT_EQ(reader_text(*pipeline.message, 1), "eval_input_reader[1] (night)");
}

}  // namespace
}  // namespace osprey::eval
