// Broken COCO files end with the file, the place and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "osprey/base/error.h"
#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CocoFilesTest : public ::testing::Test {
 protected:
  CocoFilesTest() { std::filesystem::create_directories(folder_); }
  ~CocoFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  CocoFiles read(const std::string& truth, const std::string& found) {
    return read_coco_files(write("gt.json", truth), write("dt.json", found));
  }
  std::string error(const std::string& truth, const std::string& found) {
    try {
      read(truth, found);
    } catch (const DataError& e) {
      return e.what();
    }
    return "no error";
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("coco_files_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string truth_ =
      R"({"info": {"year": 2026, "list": [1, {"id": 7}]}, "images": [{"id": 5, "file_name": "a.jpg"}, {"id": 3}],
          "annotations": [{"id": 1, "image_id": 5, "category_id": 2, "bbox": [1, 2, 30.5, 40], "area": 900.25, "iscrowd": 0, "segmentation": [[1, 2, 3]]},
                          {"id": 2, "image_id": 3, "category_id": 9, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 1, "segmentation": {"counts": [1, 2], "size": [4, 4]}}],
          "categories": [{"id": 9, "name": "dog"}, {"id": 2, "name": "cat", "supercategory": "animal"}]})";
};

TEST_F(CocoFilesTest, ReadsWhatTheEvaluationNeeds) {
  const CocoFiles files = read(truth_, R"([{"image_id": 3, "category_id": 9, "bbox": [1, 2, 3, 4], "score": 1}])");
  ASSERT_EQ(files.categories.size(), 2u);
  EXPECT_EQ(files.categories[0].name, "cat");  // by id
  ASSERT_EQ(files.images.size(), 2u);          // by id: 3, then 5
  EXPECT_TRUE(files.images[0].objects.at(0).is_crowd);
  EXPECT_EQ(files.images[1].objects.at(0).area, 900.25);
  EXPECT_EQ(files.images[0].detections.at(0).category, 1);
  EXPECT_TRUE(files.warnings.empty());
}

TEST_F(CocoFilesTest, NoDetectionsAreAllowedAndForeignCategoriesCounted) {
  EXPECT_EQ(read(truth_, "[]").num_detections, 0);
  EXPECT_EQ(read(truth_, R"([{"image_id": 3, "category_id": 4, "bbox": [1, 2, 3, 4], "score": 1}])").warnings.size(),
            1u);
}

TEST_F(CocoFilesTest, ErrorsNameFilePlaceAndCause) {
  EXPECT_THROW(read_coco_files((folder_ / "none.json").string(), "x"), DataError);
  EXPECT_THAT(error("{\n\"images\": [}", "[]"), AllOf(HasSubstr("gt.json:2:"), HasSubstr("not JSON")));
  EXPECT_THAT(error("", "[]"), AllOf(HasSubstr("gt.json:1:1"), HasSubstr("empty")));
  EXPECT_THAT(error(R"({"images": [], "annotations": []})", "[]"), HasSubstr("\"categories\" is missing"));
  EXPECT_THAT(error("[]", "[]"), HasSubstr("gt.json"));
  EXPECT_THAT(error("7", "[]"), HasSubstr("gt.json"));
  EXPECT_THAT(error(R"({"images": [{"file_name": "a"}], "annotations": [], "categories": []})", "[]"),
              HasSubstr("gt.json: images[0]: \"id\" is missing"));
  EXPECT_THAT(error(truth_, "{}"), HasSubstr("dt.json: expected COCO's results"));
  EXPECT_THAT(error(truth_, "[1]"), HasSubstr("dt.json: [0]: expected an object"));
  EXPECT_THAT(error(truth_, R"([{"image_id": 3, "category_id": 9, "score": 1}])"),
              HasSubstr("dt.json: [0]: \"bbox\" is missing"));
  EXPECT_THAT(error(truth_, R"([{"image_id": 3, "category_id": 9, "bbox": [1, 2, 3], "score": 1}])"),
              HasSubstr("found 3 numbers"));
  EXPECT_THAT(error(truth_, R"([{"image_id": 3, "category_id": 9, "bbox": [1, 2, "3", 4], "score": 1}])"),
              HasSubstr("bbox must hold numbers"));
  EXPECT_THAT(error(truth_, R"([{"image_id": 3, "category_id": 9, "bbox": [1, 2, NaN, 4], "score": 1}])"),
              HasSubstr("bbox holds nan"));
  EXPECT_THAT(error(truth_, R"([{"image_id": 3, "category_id": 9, "bbox": [1, 2, 3, 4], "score": "high"}])"),
              HasSubstr("score is text"));
  EXPECT_THAT(error(truth_, R"([{"image_id": 77, "category_id": 9, "bbox": [1, 2, 3, 4], "score": 1}])"),
              AllOf(HasSubstr("dt.json: [0]: image_id 77"), HasSubstr("gt.json")));
}

}  // namespace
}  // namespace osprey::eval
