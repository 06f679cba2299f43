// What a config is to those who copy and move it.
#include "osprey/config/pipeline.h"

#include <gtest/gtest.h>

namespace osprey::config {
namespace {

Pipeline two_classes() { return parse_pipeline("model { ssd { num_classes: 2 } }", "two.config"); }

TEST(Pipeline, ACopyIsAConfigOfItsOwn) {
  const Pipeline first = two_classes();
  Pipeline copy = first;
  copy.message->mutable_model()->mutable_ssd()->set_num_classes(7);
  copy.sources->set("model.ssd.num_classes", {Origin::Kind::kOverride, "seven", 0, 0, ""});
  EXPECT_EQ(first.message->model().ssd().num_classes(), 2);
  EXPECT_EQ(first.sources->origin("model.ssd.num_classes").source, "two.config");
  EXPECT_EQ(copy.root().sources()->origin("model.ssd.num_classes").source, "seven");

  Pipeline assigned;
  assigned = first;
  assigned.message->mutable_model()->mutable_ssd()->set_num_classes(9);
  EXPECT_EQ(first.message->model().ssd().num_classes(), 2);
  assigned = Pipeline();
  EXPECT_EQ(assigned.message, nullptr);
  EXPECT_EQ(Pipeline(assigned).sources, nullptr);
}

TEST(Pipeline, NodesSeeTheConfigThatGaveThemAlsoAfterItWasMoved) {
  Pipeline first = two_classes();
  const auto root = first.root();
  const Pipeline moved = std::move(first);
  moved.message->mutable_model()->mutable_ssd()->set_num_classes(5);
  EXPECT_EQ(root->model().ssd().num_classes(), 5);
}

}  // namespace
}  // namespace osprey::config
