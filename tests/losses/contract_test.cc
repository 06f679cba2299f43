// What every loss that is registered keeps to, those of other programs included.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osprey/kernels/assign_targets.h"
#include "osprey/losses/builder.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

constexpr int64_t kImages = 2, kAnchors = 5, kClasses = 3;

/// One member of a family on inputs it can use, in double so that differences are exact enough.
struct Subject {
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> loss;
  at::Tensor predictions, targets, weights;

  at::Tensor sum(const at::Tensor& values) const { return loss(values, targets, weights).sum(); }
};

at::Tensor random(at::IntArrayRef sizes, double low, double high, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::rand(sizes, generator, at::kDouble) * (high - low) + low;
}

/// [B, A, 4] boxes with a height and a width.
at::Tensor random_boxes(uint64_t seed) {
  const at::Tensor low = random({kImages, kAnchors, 2}, 0, 0.5, seed);
  return at::cat({low, low + random({kImages, kAnchors, 2}, 0.1, 0.5, seed + 1)}, 2);
}

/// Every message builds with its defaults.
template <class Loss>
std::shared_ptr<Loss> build(const std::string& message_name) {
  const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(message_name);
  const auto& message = *google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor);
  return Loss::Registry::instance().build(config::Node(message, "loss", nullptr));
}

template <class Loss>
Subject make_subject(const std::string& message_name) {
  Subject subject;
  subject.loss = [loss = build<Loss>(message_name)](const at::Tensor& p, const at::Tensor& t, const at::Tensor& w) {
    return (*loss)(p, t, w);
  };
  if constexpr (std::is_same_v<Loss, ClassificationLoss>) {
    subject.predictions = random({kImages, kAnchors, kClasses}, -2, 2, 1);
    subject.targets = random({kImages, kAnchors, kClasses}, 0, 1, 2);
    subject.targets.select(1, 0).fill_(1);
    subject.weights = random({kImages, kAnchors, 1}, 0.5, 1.5, 3).expand({kImages, kAnchors, kClasses}).contiguous();
  } else {
    subject.predictions = random_boxes(4);
    subject.targets = random_boxes(6);
    subject.weights = random({kImages, kAnchors}, 0.5, 1.5, 8);
  }
  return subject;
}

/// The loss of classes that have no weight at all.
double loss_without_weight(const std::string& name) {
  return name == proto::WeightedDiceClassificationLoss::descriptor()->full_name() ? kImages * kClasses : 0;
}

std::map<std::string, Subject> subjects() {
  std::map<std::string, Subject> all;
  for (const std::string& name : ClassificationLoss::Registry::instance().names())
    all[name] = make_subject<ClassificationLoss>(name);
  // Its slope is the derivative only where the targets sum to one.
  at::Tensor& exclusive = all.at(proto::WeightedSoftmaxClassificationLoss::descriptor()->full_name()).targets;
  exclusive = exclusive / exclusive.sum(2, /*keepdim=*/true);
  for (const std::string& name : LocalizationLoss::Registry::instance().names())
    all[name] = make_subject<LocalizationLoss>(name);
  return all;
}

at::Tensor gradient(const Subject& subject) {
  at::Tensor values = subject.predictions.detach().clone().requires_grad_(true);
  subject.sum(values).backward();
  return values.grad();
}

TEST(LossContract, TheResultHasADocumentedShapeAndIsFinite) {
  for (const auto& [name, s] : subjects()) {
    const at::Tensor loss = s.loss(s.predictions, s.targets, s.weights);
    const auto in = s.predictions.sizes();
    const std::vector<std::vector<int64_t>> allowed = {in.vec(), {in[0], in[1]}, {in[0], in[2]}, {in[0] * in[1]}};
    EXPECT_TRUE(std::find(allowed.begin(), allowed.end(), loss.sizes().vec()) != allowed.end())
        << name << " gives " << loss.sizes();
    EXPECT_TRUE(loss.isfinite().all().item<bool>()) << name;
  }
}

TEST(LossContract, GradientsAgreeWithFiniteDifferences) {
  constexpr double kStep = 1e-6;
  for (const auto& [name, s] : subjects()) {
    const at::Tensor slopes = gradient(s).flatten();
    for (int64_t i = 0; i < slopes.numel(); ++i) {
      at::Tensor up = s.predictions.clone(), down = s.predictions.clone();
      up.flatten()[i] += kStep;
      down.flatten()[i] -= kStep;
      const double expected = (s.sum(up) - s.sum(down)).item<double>() / (2 * kStep);
      // Central differences of step h are off by h^2 and by rounding / h: about 1e-9 here.
      EXPECT_NEAR(slopes[i].item<double>(), expected, 1e-7) << name << " element " << i;
    }
  }
}

TEST(LossContract, ZeroWeightGivesNeitherLossNorGradient) {
  for (auto& [name, s] : subjects()) {
    s.weights.select(1, 2).zero_();
    EXPECT_EQ(gradient(s).select(1, 2).abs().sum().item<double>(), 0) << name;
    s.weights.zero_();
    EXPECT_EQ(s.loss(s.predictions, s.targets, s.weights).abs().sum().item<double>(), loss_without_weight(name))
        << name;
    EXPECT_EQ(gradient(s).abs().sum().item<double>(), 0) << name;
  }
}

TEST(LossContract, SummedIsTheSumOverTheClasses) {
  const auto value_and_gradient = [](const at::Tensor& logits, const auto& loss) {
    const at::Tensor leaf = logits.clone().requires_grad_(true), losses = loss(leaf);
    const at::Tensor sums = losses.dim() == 3 ? losses.sum(2) : losses;
    (sums * at::arange(1.0f, static_cast<float>(sums.numel()) + 1).view_as(sums)).sum().backward();
    return std::pair(sums.detach(), leaf.grad());
  };
  for (const std::string& name : ClassificationLoss::Registry::instance().names()) {
    const auto loss = build<ClassificationLoss>(name);
    const Subject s = make_subject<ClassificationLoss>(name);
    for (const auto type : {at::kFloat, at::kDouble}) {
      const at::Tensor logits = s.predictions.to(type), targets = s.targets.to(type), all = s.weights.to(type);
      for (const at::Tensor& weights : {all, all.narrow(2, 0, 1)}) {
        const auto [sums, slopes] = value_and_gradient(
            logits, [&](const at::Tensor& x) { return loss->summed(x, class_targets(targets, weights)); });
        const auto [expected, expected_slopes] =
            value_and_gradient(logits, [&](const at::Tensor& x) { return (*loss)(x, targets, weights); });
        EXPECT_TRUE(sums.allclose(expected, 1e-5, 1e-6)) << name;
        EXPECT_TRUE(slopes.allclose(expected_slopes, 1e-5, 1e-5)) << name;
      }
    }
  }
}

TEST(LossContract, ATargetThatIsNotANumberCountsAsThePrediction) {
  for (const std::string& name : LocalizationLoss::Registry::instance().names())
    for (const auto type : {at::kFloat, at::kDouble}) {
      const auto loss = build<LocalizationLoss>(name);
      const Subject s = make_subject<LocalizationLoss>(name);
      const at::Tensor weights = s.weights.to(type), unknown = s.targets.to(type).clone(), known = unknown.clone();
      const auto sum_and_gradient = [&](const at::Tensor& targets) {
        const at::Tensor leaf = s.predictions.to(type).clone().requires_grad_(true);
        const at::Tensor sum = (*loss)(leaf, targets, weights).sum();
        sum.backward();
        return std::pair(sum.detach(), leaf.grad());
      };
      unknown[0][1].fill_(NAN);
      known[0][1] = s.predictions[0][1].to(type);
      const auto [sum, slopes] = sum_and_gradient(unknown);
      const auto [expected, expected_slopes] = sum_and_gradient(known);
      EXPECT_TRUE(sum.allclose(expected)) << name;
      EXPECT_TRUE(slopes.allclose(expected_slopes)) << name;
    }
}

TEST(LossContract, OfBoxesIsThatOfTheirCodes) {
  int tried = 0;
  for (const std::string& name : LocalizationLoss::Registry::instance().names()) {
    const auto loss = build<LocalizationLoss>(name);
    const kernels::MatchedBoxes targets{random_boxes(1).to(at::kFloat),
                                        at::tensor({0, -1, 4, 2, -2, 3, 3, -1, 0, 1}, at::kLong).view({2, 5}),
                                        random_boxes(3)[0].to(at::kFloat),
                                        {10, 8, 5, 4}};
    const at::Tensor codes = random({kImages, kAnchors, 4}, -2, 2, 4).to(at::kFloat),
                     weights = random({kImages, kAnchors}, 0.5, 1.5, 5).to(at::kFloat);
    if (!loss->encodes()) {
      EXPECT_THROW(loss->of_boxes(codes, targets, weights), c10::Error) << name;
      continue;
    }
    ++tried;
    const kernels::LabeledBoxes truth{targets.boxes, at::zeros({kImages, kAnchors, 1}), at::ones({kImages, kAnchors})};
    const at::Tensor written =
        kernels::assign_targets(truth, targets.match, targets.anchors, &targets.scales, {}).boxes;
    EXPECT_TRUE(loss->of_boxes(codes, targets, weights).allclose((*loss)(codes, written, weights))) << name;
  }
  EXPECT_GT(tried, 0);
}

TEST(LossContract, MorePaddingChangesNothing) {
  for (const auto& [name, s] : subjects()) {
    Subject padded = s;
    padded.predictions = at::cat({s.predictions, s.predictions}, 1);
    padded.targets = at::cat({s.targets, s.targets}, 1);
    padded.weights = at::cat({s.weights, at::zeros_like(s.weights)}, 1);
    EXPECT_NEAR(padded.sum(padded.predictions).item<double>(), s.sum(s.predictions).item<double>(), 1e-12) << name;
  }
}

TEST(LossContract, NoAnchorsAndNoImagesGiveWhatNoWeightGives) {
  for (const auto& [name, s] : subjects()) {
    for (int64_t dimension : {0, 1}) {
      Subject empty = s;
      for (at::Tensor* t : {&empty.predictions, &empty.targets, &empty.weights}) *t = t->narrow(dimension, 0, 0);
      const double expected = dimension == 1 ? loss_without_weight(name) : 0;
      EXPECT_EQ(empty.sum(empty.predictions).item<double>(), expected) << name;
      EXPECT_EQ(gradient(empty).numel(), 0) << name;
    }
  }
}

TEST(LossContract, HalfPrecisionPredictionsAreComparedInFloat32) {
  for (const auto& [name, s] : subjects()) {
    const at::Tensor low = s.predictions.to(at::kBFloat16);
    const at::Tensor loss = s.loss(low, s.targets.to(at::kFloat), s.weights.to(at::kFloat));
    EXPECT_EQ(loss.scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(loss.equal(s.loss(low.to(at::kFloat), s.targets.to(at::kFloat), s.weights.to(at::kFloat)))) << name;
  }
}

TEST(LossContract, ShapesThatDisagreeAreRefused) {
  for (const auto& [name, s] : subjects()) {
    EXPECT_THROW(s.loss(s.predictions, s.targets.narrow(1, 0, 4), s.weights), c10::Error) << name;
    EXPECT_THROW(s.loss(s.predictions, s.targets, s.weights.narrow(1, 0, 4)), c10::Error) << name;
    EXPECT_THROW(s.loss(s.predictions[0], s.targets[0], s.weights[0]), c10::Error) << name;
  }
}

template <class Family>
void expect_every_choice_is_built(const google::protobuf::Descriptor* parent) {
  for (int i = 0; i < parent->oneof_decl(0)->field_count(); ++i) {
    const auto* choice = parent->oneof_decl(0)->field(i);
    if (choice->name() == "custom") continue;
    EXPECT_TRUE(Family::Registry::instance().has(choice->message_type()->full_name())) << choice->full_name();
  }
}

TEST(LossContract, EveryChoiceOfTheSchemaIsBuilt) {
  expect_every_choice_is_built<ClassificationLoss>(proto::ClassificationLoss::descriptor());
  expect_every_choice_is_built<LocalizationLoss>(proto::LocalizationLoss::descriptor());
}

}  // namespace
}  // namespace osprey::losses
