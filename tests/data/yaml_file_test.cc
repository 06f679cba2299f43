#include "data/formats/yaml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "osprey/base/error.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using ::osprey::testing::TempDir;
using ::osprey::testing::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;
using Kind = YamlValue::Kind;

class YamlFiles : public ::testing::Test {
 protected:
  std::optional<YamlValue> find(const std::string& text, const std::string& key) {
    write_file(dir_ / "a.yaml", text);
    return YamlFile(dir_ / "a.yaml").find(key);
  }
  std::string scalar(const std::string& text) {
    const std::optional<YamlValue> value = find("k: " + text + "\n", "k");
    EXPECT_TRUE(value && value->kind == Kind::kScalar) << text;
    return value ? value->text : "";
  }
  std::vector<std::pair<std::string, std::string>> items(const std::string& text, Kind kind) {
    const std::optional<YamlValue> value = find(text, "k");
    EXPECT_TRUE(value && value->kind == kind) << text;
    std::vector<std::pair<std::string, std::string>> result;
    for (const YamlValue::Item& item : value ? value->items : std::vector<YamlValue::Item>{})
      result.emplace_back(item.key, item.text);
    return result;
  }
  void expect_refused(const std::string& text, const std::string& place, const std::string& words) {
    EXPECT_THAT([&] { find(text, "k"); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("a.yaml:" + place + ": "), HasSubstr(words))))
        << text;
  }
  TempDir dir_;
};

TEST_F(YamlFiles, ScalarsLoseQuotesAndComments) {
  EXPECT_EQ(scalar("images/train # 118287 images"), "images/train");
  EXPECT_EQ(scalar("a#b"), "a#b");
  EXPECT_EQ(scalar("C:\\data\\set"), "C:\\data\\set");
  EXPECT_EQ(scalar("http://host/a b.zip"), "http://host/a b.zip");
  EXPECT_EQ(scalar("'it''s: # no comment' # one"), "it's: # no comment");
  EXPECT_EQ(scalar(R"("a\\b \"c\"	")"), "a\\b \"c\"\t");
  EXPECT_EQ(scalar("it's"), "it's");
  EXPECT_EQ(scalar(""), "");
  EXPECT_EQ(scalar("# nothing"), "");
  EXPECT_EQ(scalar("~"), "");
  EXPECT_EQ(scalar("null"), "");
  EXPECT_EQ(scalar("'null'"), "null");
  EXPECT_EQ(find("\xEF\xBB\xBFk: a\r\nb: c\r\n", "k")->text, "a");
  EXPECT_EQ(find("---\n# first\n\n'k': a\n...\n", "k")->line, 4);
  EXPECT_FALSE(find("other: a\n", "k"));
}

TEST_F(YamlFiles, ListsStandInBlocksOrBracketsOfSeveralLines) {
  const auto expected = ElementsAre(Pair("", "traffic light"), Pair("", "it's"), Pair("", "0"));
  EXPECT_THAT(items("k: [traffic light, 'it''s', 0]\n", Kind::kList), expected);
  EXPECT_THAT(items("k: [ traffic light, # red\n\n  it's,\n0,\n]  # end\nother: 1\n", Kind::kList), expected);
  EXPECT_THAT(items("k:\n- traffic light\n- \"it's\"  # whose\n- 0\nother: 1\n", Kind::kList), expected);
  EXPECT_THAT(items("k:  # names\n\n  # in a block\n  - traffic light\n  - it's\n\n  - 0", Kind::kList), expected);
  EXPECT_THAT(items("k: []\n", Kind::kList), ElementsAre());
  EXPECT_THAT(items("k: ['a, b', \"]\", c]\n", Kind::kList),
              ElementsAre(Pair("", "a, b"), Pair("", "]"), Pair("", "c")));
}

TEST_F(YamlFiles, QuotesInBracketsEndWhereTheyAreClosed) {
  const std::string rest = "\nother: 1\n";
  EXPECT_THAT(items(R"(k: ["a\\"])" + rest, Kind::kList), ElementsAre(Pair("", "a\\")));
  EXPECT_THAT(items(R"(k: ["a\\\"]", 'b\'])" + rest, Kind::kList), ElementsAre(Pair("", "a\\\"]"), Pair("", "b\\")));
  EXPECT_THAT(items("k: ['it''s [x', 'b']" + rest, Kind::kList), ElementsAre(Pair("", "it's [x"), Pair("", "b")));
  EXPECT_THAT(items("k: ['', '''[', '[''']" + rest, Kind::kList),
              ElementsAre(Pair("", ""), Pair("", "'["), Pair("", "['")));
  EXPECT_THAT(items("k: [#\na,# ]\n b#]" + rest, Kind::kList), ElementsAre(Pair("", "a"), Pair("", "b#")));
}

TEST_F(YamlFiles, MapsStandInBlocksOrBrackets) {
  const auto expected = ElementsAre(Pair("0", "person"), Pair("7", "cell phone"));
  EXPECT_THAT(items("k:\n  0: person\n  '7': cell phone # one\nother: 1\n", Kind::kMap), expected);
  EXPECT_THAT(items("k: {0: person, 7: 'cell phone'}\n", Kind::kMap), expected);
  EXPECT_THAT(items("k: {0: person,\n    7: cell phone,\n}\n", Kind::kMap), expected);
}

TEST_F(YamlFiles, WhatStandsBehindOtherKeysDoesNoHarm) {
  const std::string rest =
      "download: |\n  import os\n\n  if a[0:\n    urls = {'a': [1, 2]}\nroboflow:\n  a:\n    b: &c [1]\nx: *c\nk: a\n";
  EXPECT_EQ(find(rest, "k")->text, "a");
  expect_refused("k: |\n  text\n", "1", "what begins with | is not read here");
}

TEST_F(YamlFiles, WhatIsNotReadIsNamedWithItsLine) {
  expect_refused("a: 1\nk:\n  - x\n  - name: y\n", "4", "lists of maps");
  expect_refused("k:\n  - x\n  - [y]\n", "3", "a list or map within another");
  expect_refused("k: [x, [y]]\n", "1", "brackets in brackets");
  expect_refused("k:\n  a: x\n  b:\n    c: y\n", "4", "indented otherwise");
  expect_refused("k:\n  a: x\n  - y\n", "3", "`key: value` is expected");
  expect_refused("k:\n  a\n", "2", "`key: value` is expected, found `a`");
  expect_refused("k: x\n  y\n", "2", "what follows the value of k");
  expect_refused("k: *x\n", "1", "what begins with * is not read here");
  expect_refused("k: 'x\n", "1", "a quote is not closed");
  expect_refused("k: 'x' y\n", "1", "behind a value is not expected");
  expect_refused("k: \"C:\\data\"\n", "1", "\\d in double quotes is not read here; single quotes");
  expect_refused("a: 1\nk: [x,\n y\n", "2", "the bracket of k is not closed");
  expect_refused("k: [x y, , z]\n", "1", "a value is missing");
  expect_refused("k: {x}\n", "1", "`key: value` is expected, found `x`");
  expect_refused("k: 1\nb\n", "2", "`key: value` is expected, found `b`");
  expect_refused("  k: 1\n", "1", "belongs to no key");
  expect_refused("k: 1\na: 2\nk: 3\n", "3", "k stands in line 1, too");
  expect_refused("k: 1\n---\nk: 2\n", "2", "a second document");
}

TEST_F(YamlFiles, AFileInBracketsIsNamedAsSuch) {
  const char* words = "a whole file in brackets is not read here";
  expect_refused("--- {k: [x]}\n", "1", words);
  expect_refused("# a set\n{\n  k: [x]\n}\n", "2", words);
  expect_refused("---\n  {k: x}\n", "2", words);
  expect_refused("---\t[k, x]\n", "1", words);
  EXPECT_EQ(find("--- # {a}\nk: x\n", "k")->text, "x");
}

TEST_F(YamlFiles, ManyLinesAreReadInLinearTime) {
  constexpr int kLines = 80000;
  std::string brackets = "k: [\n", block = "k:\n", keys;
  for (int i = 0; i < kLines; ++i) {
    const std::string number = std::to_string(i);
    brackets += "  'class " + number + "', # one\n";
    block += "  " + number + ": class\n";
    keys += "key" + number + ": a\n";
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(find(brackets + "]\n", "k")->items.size(), static_cast<size_t>(kLines));
  EXPECT_EQ(find(block, "k")->items.size(), static_cast<size_t>(kLines));
  EXPECT_EQ(find(keys, "key79999")->line, kLines);
  // About 0.1 s; the square of the lines took minutes. The limit leaves room for sanitizers.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(YamlFiles, DamagedFilesAreReadOrRefusedButNothingElse) {
  const std::string whole = "path: 'a' # b\nk:\n  0: \"x\\\\\"\n  1: y\nnc: 2\nlist: [a, 'b',\n c]\nmap: {0: a}\n- d\n";
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1 + random() % 5);
          break;
        case 1:
          text[at] = "[]{}'\"\\:,#-\n \t\0&|"[random() % 17];
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), 4));
      }
      if (text.empty()) text = "k";
    }
    try {
      write_file(dir_ / "a.yaml", text);
      const YamlFile file(dir_ / "a.yaml");
      for (const char* key : {"path", "k", "list", "map"}) file.find(key);
    } catch (const DataError&) {
    }
  }
}

}  // namespace
}  // namespace osprey::data
