#include "../src/train/run_info.h"

#include <gmock/gmock.h>

#include "osprey/base/error.h"
#include "support/temp_dir.h"

namespace osprey::train {
namespace {

using osprey::testing::TempDir;
using osprey::testing::write_file;
using ::testing::HasSubstr;

TEST(DataFingerprint, ChangesWithTheFilesAndNamesTheReaderOfThoseThatAreMissing) {
  const TempDir folder;
  proto::InputReader reader;
  reader.mutable_tf_record_input_reader()->add_input_path(folder / "a.record");
  EXPECT_THAT([&] { data_fingerprint(reader, "eval_input_reader[0]"); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("eval_input_reader[0]: 0 files match")));
  write_file(folder / "a.record", "x");
  const std::string first = data_fingerprint(reader, "eval_input_reader[0]");
  EXPECT_EQ(data_fingerprint(reader, "train_input_reader"), first);
  write_file(folder / "a.record", "xy");
  EXPECT_NE(data_fingerprint(reader, "eval_input_reader[0]"), first);
}

}  // namespace
}  // namespace osprey::train
