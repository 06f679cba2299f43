#include "detect/pictures.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "detect/picture_list.h"
#include "osprey/base/logging.h"
#include "osprey/data/record_file.h"
#include "support/example_record.h"
#include "support/golden.h"
#include "support/pictures.h"
#include "support/temp_dir.h"

namespace osprey::tools {
namespace {

using namespace ::osprey::testing;
using ::testing::HasSubstr;

void write_records(const std::string& file, const std::vector<ExampleRecord>& records) {
  data::RecordWriter writer(file);
  for (const ExampleRecord& record : records) writer.write(record.bytes());
  writer.close();
}

/// A detector that finds nothing.
std::vector<std::vector<Detection>> nothing(const std::vector<at::Tensor>& images) {
  return std::vector<std::vector<Detection>>(images.size());
}

TEST(DetectPictures, OfARecordOnlyThePictureIsLookedAt) {
  const TempDir folder;
  ExampleRecord class_zero = picture_record(4, 6), only_text = picture_record(4, 6), pixels = picture_record(4, 6);
  class_zero.box(0, 0, 1, 1, 1).ints("image/object/class/label", {0});
  only_text.box(0, 0, 1, 1).strings("image/object/class/text", {"cat"});
  pixels.box(0, 0, 80, 80, 1);
  write_records(folder / "test.record", {class_zero, only_text, pixels});
  const std::vector<Picture> pictures = pictures_of({folder / "test.record"});
  ASSERT_EQ(pictures.size(), 3U);
  for (const Picture& picture : pictures) EXPECT_TRUE(decode(picture).equal(gradient_image(4, 6))) << picture.name();
}

TEST(DetectPictures, ARecordFileThatCannotBeReadIsLeftOutAndTheOthersGoOn) {
  const TempDir folder;
  write_records(folder / "good.record", {picture_record(4, 6)});
  const std::string whole = read_file(folder / "good.record");
  write_file(folder / "cut.record", whole.substr(0, whole.size() / 2));
  write_file(folder / "empty.record", "");
  const std::vector<Picture> pictures =
      pictures_of({folder / "cut.record", folder / "empty.record", folder / "good.record"});
  set_up_logging();  // to stderr
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(list_pictures(pictures, nothing, {}, folder / "list.json"), 3);
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* file : {"cut.record", "empty.record"}) EXPECT_THAT(said, HasSubstr(folder / file));
  const nlohmann::json list = read_json(folder / "list.json");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].at("file"), folder / "good.record:0");
}

TEST(DetectPictures, AListCalledMinusIsOnStdout) {
  const TempDir folder;
  write_records(folder / "good.record", {picture_record(4, 6)});
  set_up_logging();  // to stderr
  ::testing::internal::CaptureStdout();
  const int code = list_pictures(pictures_of({folder / "good.record"}), nothing, {}, "-");
  EXPECT_EQ(nlohmann::json::parse(::testing::internal::GetCapturedStdout()).size(), 1U);
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(std::filesystem::exists("-"));
}

}  // namespace
}  // namespace osprey::tools
