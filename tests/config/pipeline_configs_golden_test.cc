// Every public pipeline config and label map is read, and read as an independent reader of the same text understands
// it.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "osprey/config/effective.h"
#include "osprey/config/fields.h"
#include "osprey/config/label_map.h"
#include "osprey/config/parse.h"
#include "osprey/config/pipeline.h"
#include "osprey/config/static_shapes.h"
#include "osprey/config/support.h"
#include "osprey/config/validate.h"
#include "osprey/protos/string_int_label_map.pb.h"
#include "support/golden.h"

namespace osprey::config {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

/// A reader of text format that knows no schema: it gives the values in their order, under paths whose every step
/// carries how often that name has come before in its message: "model[0].ssd[0].num_classes[0]".
class PlainReader {
 public:
  explicit PlainReader(const std::string& text) : text_(text) { message("", '\0'); }
  std::map<std::string, std::string> values;

 private:
  void space() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == '#'))
      at_ = text_[at_] == '#' ? std::min(text_.find('\n', at_), text_.size()) : at_ + 1;
  }
  char peek() {
    space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    space();
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || std::strchr("_.+-", text_[at_]) != nullptr))
      ++at_;
    return text_.substr(start, at_ - start);
  }
  void message(const std::string& path, char closing) {
    std::map<std::string, int> counts;
    while (peek() != closing) {
      const std::string name = word();
      ASSERT_FALSE(name.empty()) << "at byte " << at_;
      auto next_path = [&] {
        return path + (path.empty() ? "" : ".") + name + "[" + std::to_string(counts[name]++) + "]";
      };
      take(':');
      if (take('[')) {
        while (!take(']')) {
          value(next_path());
          take(',');
        }
      } else {
        value(next_path());
      }
      if (!take(',')) take(';');
    }
    ++at_;
    for (const auto& [name, count] : counts) sort_entries(path + (path.empty() ? "" : ".") + name, count);
  }
  /// Entries of a map, known by their two fields, are numbered in the order of their keys.
  void sort_entries(const std::string& path, int count) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (int i = 0; i < count; ++i) {
      const std::string entry = path + "[" + std::to_string(i) + "]";
      const auto key = values.find(entry + ".key[0]"), held = values.find(entry + ".value[0]");
      if (key == values.end() || held == values.end()) return;
      entries.emplace_back(key->second, held->second);
    }
    std::sort(entries.begin(), entries.end());
    for (int i = 0; i < count; ++i) {
      const std::string entry = path + "[" + std::to_string(i) + "]";
      values[entry + ".key[0]"] = entries[i].first;
      values[entry + ".value[0]"] = entries[i].second;
    }
  }
  void value(const std::string& path) {
    const char c = peek();
    if (c == '{' || c == '<') {
      ++at_;
      values[path] = "{}";
      message(path, c == '{' ? '}' : '>');
    } else if (c == '"' || c == '\'') {
      std::string joined;
      while (peek() == '"' || peek() == '\'') joined += quoted();
      values[path] = joined;
    } else {
      const std::string sign = take('-') ? "-" : "";
      values[path] = sign + word();
    }
  }
  std::string quoted() {
    const char quote = text_[at_++];
    std::string result;
    while (text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\') {
        c = text_[at_++];
        if (c == 'x') {
          c = static_cast<char>(std::stoi(text_.substr(at_, 2), nullptr, 16));
          at_ += 2;
        } else if (c >= '0' && c <= '7') {
          c = static_cast<char>(std::stoi(text_.substr(at_ - 1, 3), nullptr, 8));
          at_ += 2;
        } else if (const char* known = std::strchr("n\nt\tr\r", c); known != nullptr) {
          c = known[1];
        }
      }
      result += c;
    }
    ++at_;  // the closing quote
    return result;
  }

  const std::string& text_;
  size_t at_ = 0;
};

/// Whether the words of a text mean the value that a message holds.
bool means(const std::string& words, const FieldValue& value) {
  const auto* reflection = value.parent->GetReflection();
  const auto* field = value.field;
  const int i = value.index;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return words == "{}";
    case FieldDescriptor::CPPTYPE_STRING:
      return words == (i < 0 ? reflection->GetString(*value.parent, field)
                             : reflection->GetRepeatedString(*value.parent, field, i));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (words == "true" || words == "True" || words == "t" || words == "1") ==
             reflection->GetBool(*value.parent, field);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* number =
          i < 0 ? reflection->GetEnum(*value.parent, field) : reflection->GetRepeatedEnum(*value.parent, field, i);
      return words == number->name() || words == std::to_string(number->number());
    }
    case FieldDescriptor::CPPTYPE_FLOAT:
      return std::strtof(words.c_str(), nullptr) == (i < 0 ? reflection->GetFloat(*value.parent, field)
                                                           : reflection->GetRepeatedFloat(*value.parent, field, i));
    case FieldDescriptor::CPPTYPE_INT32:
      return std::strtoll(words.c_str(), nullptr, 0) == (i < 0 ? reflection->GetInt32(*value.parent, field)
                                                               : reflection->GetRepeatedInt32(*value.parent, field, i));
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::strtoll(words.c_str(), nullptr, 0) == (i < 0
                                                             ? reflection->GetUInt32(*value.parent, field)
                                                             : reflection->GetRepeatedUInt32(*value.parent, field, i));
    default:
      return false;
  }
}

/// "a[0].b.c[2]" -> "a[0].b[0].c[2]", as PlainReader writes paths.
std::string counted(const std::string& path) {
  std::string result;
  for (size_t i = 0; i <= path.size(); ++i) {
    const bool step_ends = i == path.size() || path[i] == '.';
    if (step_ends && !result.empty() && result.back() != ']') result += "[0]";
    if (i < path.size()) result += path[i];
  }
  return result;
}

void expect_same_as_plain_reader(const Message& message, const std::string& text) {
  PlainReader reader(text);
  size_t visited = 0;
  visit_fields(message, [&](const FieldValue& value) {
    ++visited;
    const auto found = reader.values.find(counted(value.path));
    ASSERT_NE(found, reader.values.end()) << value.path << " is set but not written";
    EXPECT_TRUE(means(found->second, value))
        << value.path << " is written " << found->second << " and read " << value.text();
  });
  EXPECT_EQ(visited, reader.values.size()) << "values that are written but not set";
}

std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(osprey::testing::bundled_data() / folder))
    files.push_back(entry.path());
  if (osprey::testing::test_data())
    for (const auto& entry : std::filesystem::directory_iterator(*osprey::testing::test_data() / folder))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void for_each_config(const std::function<void(const Pipeline&, const std::string&)>& check) {
  int checked = 0;
  for (const auto& file : files_in("data/pipeline_configs")) {
    SCOPED_TRACE(file.string());
    const Pipeline pipeline = load_pipeline(file.string());
    check(pipeline, osprey::testing::read_file(file));
    ++checked;
  }
  EXPECT_GE(checked, 1);
}

TEST(PipelineConfigs, AreReadAsAnIndependentReaderReadsThem) {
  for_each_config(
      [](const Pipeline& pipeline, const std::string& text) { expect_same_as_plain_reader(*pipeline.message, text); });
}

TEST(PipelineConfigs, EveryValueKnowsItsPlaceAndNamesItsField) {
  for_each_config([](const Pipeline& pipeline, const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    visit_fields(*pipeline.message, [&](const FieldValue& value) {
      if (value.field->is_map() || value.parent->GetDescriptor()->options().map_entry()) return;
      const Origin* origin = pipeline.sources->find(value.path);
      ASSERT_NE(origin, nullptr) << value.path;
      const std::string rest = lines.at(origin->line - 1).substr(origin->column - 1);
      // Elements of a bracketed list stand at their value, all others at the name of their field.
      const bool at_name = rest.compare(0, value.field->name().size(), value.field->name()) == 0;
      EXPECT_TRUE(at_name || value.index >= 0) << value.path << ": " << rest;
    });
  });
}

TEST(PipelineConfigs, TheEffectiveTextIsReadBackAsTheSameMessage) {
  for_each_config([](const Pipeline& pipeline, const std::string&) {
    EXPECT_TRUE(
        MessageDifferencer::Equals(*pipeline.message, *parse_pipeline(effective_text(*pipeline.message)).message));
    EXPECT_TRUE(MessageDifferencer::Equals(*pipeline.message, *parse_pipeline(annotated_text(pipeline)).message));
  });
}

TEST(PipelineConfigs, PassTheRangeChecks) {
  for_each_config([](const Pipeline& pipeline, const std::string& text) {
    std::string error;
    try {
      validate(pipeline);
    } catch (const ConfigError& thrown) {
      error = thrown.what();
    }
    // Our own file of every spelling has a string with a tab in it.
    const bool has_tab = text.find("a\\tb") != std::string::npos;
    EXPECT_EQ(error.find("holds a control character") != std::string::npos, has_tab) << error;
    EXPECT_EQ(error.empty(), !has_tab) << error;
  });
}

TEST(PipelineConfigs, WhatIsNotBuiltIsNamedByItsField) {
  for_each_config([](const Pipeline& pipeline, const std::string&) {
    const auto refused = unsupported_choices(pipeline).refused;
    const auto& model = pipeline.message->model();
    EXPECT_EQ(std::any_of(refused.begin(), refused.end(),
                          [](const Remark& remark) { return remark.path.compare(0, 6, "model.") == 0; }),
              model.has_faster_rcnn() || model.has_center_net());
    for (const auto& part : dynamic_parts(pipeline)) EXPECT_FALSE(part.substitute.empty());
  });
}

TEST(LabelMaps, AreReadAsAnIndependentReaderReadsThem) {
  for (const auto& file : files_in("data/label_maps")) {
    SCOPED_TRACE(file.string());
    const std::string text = osprey::testing::read_file(file);
    expect_same_as_plain_reader(*parse<proto::StringIntLabelMap>(text, file.string()).message, text);
    const LabelMap map = load_label_map(file.string());
    EXPECT_EQ(label_map_text(parse_label_map(label_map_text(map), "again")), label_map_text(map));
  }
}

TEST(PipelineConfigs, TheShippedCocoRecipeIsTheOriginalOne) {
  const std::string name = "ssd_mobilenet_v1_300x300_coco14_sync.config";
  if (!osprey::testing::test_data()) GTEST_SKIP() << osprey::testing::kNoTestData;
  const auto original = *osprey::testing::test_data() / "data/pipeline_configs" / name;
  if (!std::filesystem::exists(original)) GTEST_SKIP() << "the public config is not among the test data: " << original;
  // What says where files lie, and what changes nothing here.
  const std::vector<std::string> without = {"model.ssd.matcher.argmax_matcher.use_matmul_gather=",
                                            "model.ssd.inplace_batchnorm_update=",
                                            "model.ssd.freeze_batchnorm=",
                                            "train_config.fine_tune_checkpoint=",
                                            "train_config.sync_replicas=",
                                            "train_config.startup_delay_steps=",
                                            "train_config.replicas_to_aggregate=",
                                            "train_config.unpad_groundtruth_tensors=",
                                            "eval_config.num_examples=",
                                            "train_input_reader=",
                                            "eval_input_reader="};
  const Pipeline theirs = load_pipeline(original.string(), without),
                 ours = load_pipeline(OSPREY_SOURCE_DIR "/configs/" + name, without);
  EXPECT_EQ(differences(*theirs.message, *ours.message), "");
}

}  // namespace
}  // namespace osprey::config
