// The schema agrees with the original's, row by row, and Osprey's own fields keep out of its numbers.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "osprey/config/pipeline.h"
#include "osprey/protos/calibration.pb.h"
#include "osprey/protos/flexible_grid_anchor_generator.pb.h"
#include "osprey/protos/string_int_label_map.pb.h"
#include "support/golden.h"

namespace osprey::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

struct Row {
  std::vector<std::string> columns;
  const std::string& at(size_t i) const { return columns.at(i); }
  const std::string& kind() const { return at(0); }
  const std::string& file() const { return at(1); }
  const std::string& scope() const { return at(2); }
  const std::string& name() const { return at(3); }
  const std::string& number() const { return at(4); }
  const std::string& label() const { return at(5); }
  const std::string& type() const { return at(6); }
  const std::string& type_name() const { return at(7); }
  const std::string& default_value() const { return at(8); }
  const std::string& oneof() const { return at(9); }
  const std::string& options() const { return at(11); }
};

std::vector<Row> rows_of(const std::filesystem::path& file) {
  std::vector<Row> rows;
  std::istringstream text(osprey::testing::read_file(file));
  std::string line;
  std::getline(text, line);  // the header
  while (std::getline(text, line)) {
    Row row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) row.columns.push_back(cell);
    row.columns.resize(12);
    rows.push_back(row);
  }
  return rows;
}

/// The original's names in our package.
std::string ours(const std::string& name) {
  const std::string theirs = "object_detection.protos";
  return name.compare(0, theirs.size(), theirs) == 0 ? "osprey.protos" + name.substr(theirs.size()) : name;
}

const DescriptorPool& pool() {
  proto::TrainEvalPipelineConfig::descriptor();
  proto::StringIntLabelMap::descriptor();
  proto::CalibrationConfig::descriptor();
  return *DescriptorPool::generated_pool();
}

/// An enum may be nested in a message or stand at the top of a file; its values are looked up by their owner.
const google::protobuf::EnumDescriptor* enum_type(const std::string& name) {
  return pool().FindEnumTypeByName(ours(name));
}

std::string default_of(const FieldDescriptor* field) {
  if (!field->has_default_value()) return "";
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return field->default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return std::to_string(field->default_value_int32());
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::to_string(field->default_value_uint32());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return std::to_string(field->default_value_float());
    case FieldDescriptor::CPPTYPE_ENUM:
      return field->default_value_enum()->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return field->default_value_string();
    default:
      return "a default of another type";
  }
}

void check_file(const Row& row) {
  const auto* file = pool().FindFileByName("osprey/protos/" + row.file());
  ASSERT_NE(file, nullptr) << row.file();
  EXPECT_EQ(file->package(), ours(row.scope()));
  EXPECT_EQ(file->syntax(), google::protobuf::FileDescriptor::SYNTAX_PROTO2);
  EXPECT_EQ(row.name(), "proto2");
  std::set<std::string> imports;
  for (int i = 0; i < file->dependency_count(); ++i) imports.insert(file->dependency(i)->name());
  const std::string prefix = "imports=";
  ASSERT_EQ(row.type_name().compare(0, prefix.size(), prefix), 0);
  std::istringstream list(row.type_name().substr(prefix.size()));
  for (std::string name; std::getline(list, name, ',');)
    EXPECT_EQ(imports.count("osprey/protos/" + name), 1u) << row.file() << " imports " << name;
}

void check_field(const Row& row) {
  const std::string where = row.scope() + "." + row.name();
  const Descriptor* owner = pool().FindMessageTypeByName(ours(row.scope()));
  ASSERT_NE(owner, nullptr) << where;
  const FieldDescriptor* field = owner->FindFieldByName(row.name());
  ASSERT_NE(field, nullptr) << where;
  EXPECT_EQ(std::to_string(field->number()), row.number()) << where;
  const char* labels[] = {"", "optional", "required", "repeated"};
  EXPECT_EQ(labels[field->label()], row.label()) << where;
  EXPECT_EQ(field->type_name(), row.type()) << where;
  const std::string type_name = field->message_type() != nullptr ? field->message_type()->full_name()
                                : field->enum_type() != nullptr  ? field->enum_type()->full_name()
                                                                 : "";
  EXPECT_EQ(type_name, ours(row.type_name())) << where;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT && field->has_default_value())
    EXPECT_EQ(field->default_value_float(), std::strtof(row.default_value().c_str(), nullptr)) << where;
  else
    EXPECT_EQ(default_of(field), row.default_value()) << where;
  EXPECT_EQ(field->real_containing_oneof() == nullptr ? "" : field->real_containing_oneof()->name(), row.oneof())
      << where;
  EXPECT_EQ(field->options().deprecated() ? "deprecated" : "", row.options()) << where;
}

void check_row(const Row& row) {
  const std::string where = row.scope() + "." + row.name();
  if (row.kind() == "file") {
    check_file(row);
  } else if (row.kind() == "message") {
    const Descriptor* type = pool().FindMessageTypeByName(ours(row.scope()));
    ASSERT_NE(type, nullptr) << where;
    EXPECT_EQ(type->name(), row.name());
    EXPECT_EQ(type->file()->name(), "osprey/protos/" + row.file()) << where;
  } else if (row.kind() == "field") {
    check_field(row);
  } else if (row.kind() == "enum_value") {
    ASSERT_NE(enum_type(row.scope()), nullptr) << where;
    const auto* value = enum_type(row.scope())->FindValueByName(row.name());
    ASSERT_NE(value, nullptr) << where;
    EXPECT_EQ(std::to_string(value->number()), row.number()) << where;
  } else if (row.kind() == "reserved") {
    EXPECT_TRUE(pool().FindMessageTypeByName(ours(row.scope()))->IsReservedNumber(std::stoi(row.number()))) << where;
  } else if (row.kind() == "extension_range") {
    // Ranges that begin at 1000 hold Osprey's own fields instead.
    const Descriptor* type = pool().FindMessageTypeByName(ours(row.scope()));
    ASSERT_NE(type, nullptr) << where;
    EXPECT_EQ(type->IsExtensionNumber(std::stoi(row.number())), std::stoi(row.number()) < 1000) << where;
  } else {
    FAIL() << "a kind of row that nobody checks: " << row.kind();
  }
}

void visit_messages(const Descriptor* type, const std::function<void(const Descriptor*)>& visit) {
  visit(type);
  for (int i = 0; i < type->nested_type_count(); ++i) visit_messages(type->nested_type(i), visit);
}

TEST(Schema, EveryRowOfTheOriginalIsHere) {
  for (const auto& file : osprey::testing::golden_files("schema.tsv")) {
    const auto rows = rows_of(file);
    EXPECT_FALSE(rows.empty()) << file;
    for (const Row& row : rows) check_row(row);
  }
}

TEST(Schema, OwnFieldsAreNumberedFromAThousand) {
  if (!osprey::testing::test_data()) GTEST_SKIP() << osprey::testing::kNoTestData;
  std::set<std::string> theirs, their_messages, files;
  for (const Row& row : rows_of(osprey::testing::golden_files("schema.tsv").back())) {
    if (row.kind() == "field" || row.kind() == "enum_value") theirs.insert(ours(row.scope()) + "." + row.name());
    if (row.kind() == "message" || row.kind() == "enum_value") their_messages.insert(ours(row.scope()));
    if (row.kind() == "file") files.insert(row.file());
  }
  for (const std::string& name : files) {
    const auto* file = pool().FindFileByName("osprey/protos/" + name);
    ASSERT_NE(file, nullptr) << name;
    for (int m = 0; m < file->message_type_count(); ++m) {
      visit_messages(file->message_type(m), [&](const Descriptor* type) {
        const bool is_theirs = their_messages.count(type->full_name()) > 0;
        for (int i = 0; i < type->field_count(); ++i) {
          const FieldDescriptor* field = type->field(i);
          const bool clashes = is_theirs && theirs.count(field->full_name()) == 0 && field->number() < 1000;
          EXPECT_FALSE(clashes) << field->full_name();
        }
      });
    }
  }
}

}  // namespace
}  // namespace osprey::config
