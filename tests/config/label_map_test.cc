#include "osprey/config/label_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "osprey/base/error.h"

namespace osprey::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string label_map_error(const std::string& text) {
  try {
    parse_label_map(text, "m.pbtxt");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(LabelMap, ItemsAreSortedAndFoundByIdAndByName) {
  const LabelMap map =
      parse_label_map("item { name: '/m/01g317' id: 3 display_name: 'person' }\nitem { id: 1 name: 'cat' }", "m.pbtxt");
  ASSERT_EQ(map.items.size(), 2u);
  EXPECT_EQ(map.items[0].name, "cat");
  EXPECT_EQ(map.max_id(), 3);
  EXPECT_EQ(map.find(3)->shown(), "person");
  EXPECT_EQ(map.find(2), nullptr);
  EXPECT_EQ(map.find(""), nullptr) << "the name of none, whatever lacks a display name";
  EXPECT_EQ(map.find("person")->id, 3);
  EXPECT_EQ(map.find("cat")->shown(), "cat");
  EXPECT_EQ(map.find("/m/01g317")->id, 3);
}

TEST(LabelMap, ABackgroundThatIsListedAsInPublicMapsIsNoClass) {
  const LabelMap map = parse_label_map("item { id: 0 name: 'background' } item { id: 1 name: 'person' }", "m.pbtxt");
  ASSERT_EQ(map.items.size(), 1u);
  EXPECT_EQ(map.items[0].name, "person");
}

TEST(LabelMap, EveryFindingIsReportedWithItsLine) {
  const std::string all = label_map_error(
      "item { id: 1 name: 'a' }\nitem { id: 1 name: 'b' }\nitem { id: 0 name: 'c' }\nitem { name: 'd' }\n"
      "item { id: 5 name: 'a' }\nitem { id: 6 }\n");
  EXPECT_THAT(all, AllOf(HasSubstr("m.pbtxt:2:8: item[1].id: 1 is taken by the item at line 1"),
                         HasSubstr("m.pbtxt:3:8: item[2].id: must be >= 1, got 0"),
                         HasSubstr("m.pbtxt:4:1: item[3].id: is not set"),
                         HasSubstr("m.pbtxt:5:14: item[4].name: \"a\" is taken by the item at line 1"),
                         HasSubstr("m.pbtxt:6:1: item[5].name: is not set")));
  EXPECT_THAT(label_map_error(""), HasSubstr("the label map is empty"));
  EXPECT_THAT(label_map_error("item { idd: 3 }"),
              HasSubstr("item[0].idd: StringIntLabelMapItem has no such field; did you mean \"id\"?"));
  EXPECT_THROW(load_label_map("/nowhere/m.pbtxt"), ConfigError);
}

TEST(LabelMap, WhatIsWrittenIsReadBack) {
  LabelMap map;
  map.items = {{1, "it's \"one\"\n", "Eins\\"}, {7, "zw\u00f6lf", ""}};
  const auto file = std::filesystem::path(::testing::TempDir()) / "written_label_map.pbtxt";
  write_label_map(map, file.string());
  const LabelMap read = load_label_map(file.string());
  ASSERT_EQ(read.items.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.items[i].id, map.items[i].id);
    EXPECT_EQ(read.items[i].name, map.items[i].name);
    EXPECT_EQ(read.items[i].display_name, map.items[i].display_name);
  }
  EXPECT_THROW(write_label_map(map, "/nowhere/m.pbtxt"), DataError);
}

}  // namespace
}  // namespace osprey::config
