// The program of docs/add_a_loss.md: a loss of its own, with a config message that Osprey does not know.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/wrappers.pb.h>

#include <fstream>

#include "osprey/config/parse.h"
#include "osprey/losses/builder.h"
#include "osprey/protos/losses.pb.h"
#include "support/golden.h"

// [docs/add_a_loss.md: begin]
namespace {

using osprey::config::ConfigNode;
using osprey::losses::ClassificationLoss;

/// Squared distance of probability and target, times a factor.
class ScaledBrier final : public ClassificationLoss {
 public:
  explicit ScaledBrier(double factor) : factor_(factor) {}

 private:
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    return factor_ * (at::sigmoid(logits) - targets).square() * weights;
  }

  double factor_;
};

std::unique_ptr<ClassificationLoss> make(const ConfigNode<google::protobuf::FloatValue>& cfg) {
  if (!(cfg->value() >= 0)) cfg.fail("value", fmt::format("must be >= 0, got {}", cfg->value()));
  return std::make_unique<ScaledBrier>(cfg->value());
}
OSPREY_REGISTER(ClassificationLoss, &make);

}  // namespace
// [docs/add_a_loss.md: end]

namespace osprey::losses {
namespace {

constexpr const char* kConfig = "custom { [type.googleapis.com/google.protobuf.FloatValue] { value: 2 } }";

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "'" + begin + "' not found";
  return text.substr(from + begin.size(), text.find(end, from + begin.size()) - from - begin.size());
}

TEST(CustomLoss, IsBuiltFromAMessageOfAnotherProgram) {
  const auto loss = build_classification_loss(config::parse<proto::ClassificationLoss>(kConfig).node());
  // Logit 0: p = 0.5, squared distance to 1 is 0.25, times 2.
  EXPECT_NEAR((*loss)(at::zeros({1, 1, 1}), at::ones({1, 1, 1}), at::ones({1, 1, 1})).item<double>(), 0.5, 1e-6);
}

TEST(CustomLoss, ItsErrorsNameItsField) {
  const auto parsed = config::parse<proto::ClassificationLoss>(
      "custom { [type.googleapis.com/google.protobuf.FloatValue] { value: -2 } }");
  EXPECT_THAT([&] { build_classification_loss(parsed.node()); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("custom.value: must be >= 0")));
}

TEST(CustomLoss, TheDocumentShowsThisProgram) {
  const auto root = std::filesystem::path(OSPREY_SOURCE_DIR);
  const std::string program = between(testing::read_file(root / "tests/losses/custom_loss_test.cc"),
                                      "// [docs/add_a_loss.md: begin]\n", "// [docs/");
  const std::string document = testing::read_file(root / "docs/add_a_loss.md");
  EXPECT_EQ(between(document, "```cpp\n", "```"), program);
  EXPECT_NE(document.find(kConfig), std::string::npos);
}

}  // namespace
}  // namespace osprey::losses
