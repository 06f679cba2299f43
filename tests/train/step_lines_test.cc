// Files of a model directory that grow by a line at a time.
#include "osprey/train/step_lines.h"

#include <gmock/gmock.h>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::read_file;
using osprey::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(StepLines, GoOnAfterTheLastLineThatIsNotMadeOnceMore) {
  const TempDir folder;
  const std::filesystem::path file = folder / "lines.jsonl";
  {
    StepLines lines(file, 0);
    EXPECT_EQ(lines.last("seconds"), 0);
    for (const char* line : {R"({"step":1,"seconds":2.5})", R"({"step":2,"seconds":4,"name":"b"})", R"({"step":3})"})
      lines.write(line);
    lines.write(R"({"step":2,"sec)");  // cut off as the process was killed
  }
  StepLines lines(file, 2);
  EXPECT_EQ(lines.last("seconds"), 4);
  EXPECT_EQ(lines.last("name"), 0) << "which is no number";
  lines.write(R"({"step":3,"seconds":5})");
  EXPECT_EQ(read_file(file), R"({"step":1,"seconds":2.5}
{"step":2,"seconds":4,"name":"b"}
{"step":3,"seconds":5}
)");
  EXPECT_EQ(StepLines(file, 9).last("seconds"), 5);
}

TEST(StepLines, NameTheFileThatCannotBeWritten) {
  const TempDir folder;
  EXPECT_THAT([&] { StepLines(folder.path() / "none/lines.jsonl", 0); },
              ThrowsMessage<DataError>(HasSubstr("none/lines.jsonl: cannot be written")));
}

}  // namespace
}  // namespace osprey::train
