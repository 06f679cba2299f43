// docs/config_fields.md lists every field that the original does not have.
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>

#include "osprey/config/pipeline.h"
#include "support/golden.h"

namespace osprey::config {
namespace {

using google::protobuf::Descriptor;

void visit(const Descriptor* type, std::set<const Descriptor*>& seen,
           const std::function<void(const Descriptor*)>& check) {
  if (type->file()->package() != "osprey.protos" || !seen.insert(type).second) return;
  check(type);
  for (int i = 0; i < type->field_count(); ++i)
    if (type->field(i)->message_type() != nullptr) visit(type->field(i)->message_type(), seen, check);
}

TEST(OwnFields, EachIsDocumentedWithItsParentAndNumber) {
  const std::string page =
      osprey::testing::read_file(std::filesystem::path(OSPREY_SOURCE_DIR) / "docs" / "config_fields.md");
  std::set<const Descriptor*> seen;
  int own = 0;
  visit(proto::TrainEvalPipelineConfig::descriptor(), seen, [&](const Descriptor* type) {
    for (int i = 0; i < type->field_count(); ++i) {
      const auto* field = type->field(i);
      const std::string parent = type->full_name().substr(std::string("osprey.protos.").size());
      const bool own_message =
          parent.starts_with("CheckpointConfig") || parent == "ResidualNetwork" || parent == "ImageNormalization";
      if (field->number() < 1000 && !own_message) continue;
      ++own;
      const std::string row = fmt::format("| `{}` | `{}` | {} |", parent, field->name(), field->number());
      EXPECT_NE(page.find(row), std::string::npos) << "no row in docs/config_fields.md begins " << row;
    }
  });
  EXPECT_GE(own, 30);
}

}  // namespace
}  // namespace osprey::config
