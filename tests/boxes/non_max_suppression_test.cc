#include "osprey/boxes/non_max_suppression.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "osprey/kernels/box_codes.h"
#include "osprey/kernels/device.h"
#include "support/golden.h"

namespace osprey::boxes {
namespace {

using osprey::testing::expect_close;
using Indices = std::vector<int64_t>;

/// Boxes of height 1 that start at the given x and are 1 wide: an overlap of t in x gives IoU t / (2 - t).
at::Tensor row_of_boxes(const std::vector<float>& xs) {
  const at::Tensor x = at::tensor(xs);
  return at::stack({at::zeros_like(x), x, at::ones_like(x), x + 1}, 1);
}

TEST(NonMaxSuppression, OverlapStrictlyAboveTheThresholdSuppresses) {
  // The first two share half of each: IoU 0.5 / 1.5 = 1/3. The two equal boxes have IoU 1.
  const at::Tensor boxes = row_of_boxes({0, 0.5, 5, 5}), scores = at::tensor({0.9f, 0.8f, 0.7f, 0.6f});
  EXPECT_EQ(non_max_suppression(boxes, scores, 10, 0.5f, 0).indices, (Indices{0, 1, 2}));
  EXPECT_EQ(non_max_suppression(boxes, scores, 10, 0.3f, 0).indices, (Indices{0, 2}));
  EXPECT_EQ(non_max_suppression(boxes, scores, 10, 1, 0).indices, (Indices{0, 1, 2, 3}));
}

TEST(NonMaxSuppression, ScoresMustExceedTheThresholdAndTiesKeepTheirOrder) {
  const at::Tensor boxes = row_of_boxes({0, 2, 4, 6, 8});
  const at::Tensor scores = at::tensor({0.5f, 0.9f, 0.5f, 0.9f, static_cast<float>(NAN)});
  EXPECT_EQ(non_max_suppression(boxes, scores, 10, 0.5f, 0.4f).indices, (Indices{1, 3, 0, 2}));
  EXPECT_EQ(non_max_suppression(boxes, scores, 10, 0.5f, 0.5f).indices, (Indices{1, 3}));
  EXPECT_EQ(non_max_suppression(boxes, scores, 3, 0.5f, 0).indices, (Indices{1, 3, 0}));
  EXPECT_TRUE(non_max_suppression(boxes, scores, 0, 0.5f, 0).indices.empty());
}

TEST(NonMaxSuppression, SoftDecayReordersBoxes) {
  // IoU 1/3, sigma 0.5: exp(-1/9) = 0.8948; 0.8 becomes 0.7159, behind the 0.75 far away.
  const Kept kept = non_max_suppression(row_of_boxes({0, 0.5, 5}), at::tensor({0.9f, 0.8f, 0.75f}), 10, 0.1f, 0, 0.5f);
  EXPECT_EQ(kept.indices, (Indices{0, 2, 1}));
  EXPECT_NEAR(kept.scores[2], 0.8 * std::exp(-1.0 / 9), 1e-6);
}

TEST(NonMaxSuppression, ManyCandidatesAreSuppressedLikeFew) {
  // 5000 copies of one box, then a lonely one with the lowest score: the search has to go through all of them.
  std::vector<float> xs(5000, 0.0f), values;
  xs.push_back(3);
  for (size_t i = 0; i < xs.size(); ++i) values.push_back(1.0f - static_cast<float>(i) * 1e-4f);
  EXPECT_EQ(non_max_suppression(row_of_boxes(xs), at::tensor(values), 2, 0.5f, 0).indices, (Indices{0, 5000}));
}

NmsOptions options(int64_t per_class, int64_t total) {
  NmsOptions result;
  result.iou_threshold = 0.5f;
  result.max_detections_per_class = per_class;
  result.max_total_detections = total;
  return result;
}

const at::Tensor& unit_window() {
  static const at::Tensor t = at::tensor({0.0f, 0.0f, 1.0f, 1.0f});
  return t;
}

TEST(BatchNonMaxSuppression, ClassesDoNotSuppressEachOtherUnlessAgnostic) {
  const at::Tensor boxes = at::tensor({0.0f, 0.0f, 1.0f, 1.0f}).expand({1, 2, 4});
  const at::Tensor scores = at::tensor({0.9f, 0.3f, 0.8f, 0.4f}).view({1, 2, 2});
  NmsResult result = batch_non_max_suppression(boxes, scores, options(5, 5), unit_window());
  EXPECT_EQ(result.detections.count.item<int64_t>(), 2);
  expect_close(result.detections.classes, at::tensor({0, 1, 0, 0, 0}).view({1, 5}), 0, 0, "classes");
  expect_close(result.detections.scores, at::tensor({0.9f, 0.4f, 0.0f, 0.0f, 0.0f}).view({1, 5}), 0, 0, "scores");
  expect_close(result.indices, at::tensor({0, 1, 0, 0, 0}).view({1, 5}), 0, 0, "indices");
  NmsOptions agnostic = options(5, 5);
  agnostic.class_agnostic = true;
  EXPECT_EQ(batch_non_max_suppression(boxes, scores, agnostic, unit_window()).detections.count.item<int64_t>(), 1);
}

/// What is kept of one image, as plainly as it can be said: the best is taken, and all others are looked at again.
struct Found {
  int64_t row, label;
  float score;
};

float overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto side = [](const at::Tensor& box, int k) { return box[k].item<float>(); };
  const auto area = [&](const at::Tensor& box) {
    return (side(box, 2) - side(box, 0)) * (side(box, 3) - side(box, 1));
  };
  const float height = std::min(side(a, 2), side(b, 2)) - std::max(side(a, 0), side(b, 0)),
              width = std::min(side(a, 3), side(b, 3)) - std::max(side(a, 1), side(b, 1));
  const float both = std::max(height, 0.0f) * std::max(width, 0.0f);
  return both / (area(a) + area(b) - both);
}

std::vector<Found> kept_plainly(const at::Tensor& boxes, std::vector<Found> rest, int64_t most,
                                const NmsOptions& options) {
  std::vector<Found> kept;
  while (static_cast<int64_t>(kept.size()) < most) {
    std::erase_if(rest, [&](const Found& one) { return !(one.score > options.score_threshold); });
    if (rest.empty()) break;
    const auto best =
        std::max_element(rest.begin(), rest.end(), [](const Found& a, const Found& b) { return a.score < b.score; });
    kept.push_back(*best);
    rest.erase(best);
    for (Found& one : rest) {
      const float iou = overlap(boxes[kept.back().row], boxes[one.row]);
      if (options.soft_nms_sigma > 0)
        one.score *= std::exp(-iou * iou / (2 * options.soft_nms_sigma));
      else if (iou > options.iou_threshold)
        one.score = 0;
    }
  }
  return kept;
}

std::vector<Found> detections_plainly(const at::Tensor& boxes, const at::Tensor& scores, const NmsOptions& options) {
  std::vector<Found> all;
  std::vector<std::vector<Found>> classes(static_cast<size_t>(options.class_agnostic ? 1 : scores.size(1)));
  for (int64_t row = 0; row < scores.size(0); ++row) {
    if (options.class_agnostic) {
      const int64_t best = scores[row].argmax().item<int64_t>();
      classes[0].push_back({row, best, scores[row][best].item<float>()});
      continue;
    }
    for (int64_t c = 0; c < scores.size(1); ++c)
      classes[static_cast<size_t>(c)].push_back({row, c, scores[row][c].item<float>()});
  }
  for (const auto& candidates : classes)
    for (const Found& one : kept_plainly(
             boxes, candidates,
             options.class_agnostic ? options.max_total_detections : options.max_detections_per_class, options))
      all.push_back(one);
  std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  all.resize(std::min<size_t>(all.size(), static_cast<size_t>(options.max_total_detections)));
  return all;
}

TEST(BatchNonMaxSuppression, HardAndSoftByClassAndAgnosticAreAsTheyAreDefined) {
  at::manual_seed(3);
  const at::Tensor corner = at::rand({3, 70, 2}) * 0.5,
                   boxes = at::cat({corner, corner + at::rand({3, 70, 2}) * 0.4 + 0.05}, 2),
                   scores = at::rand({3, 70, 4});
  for (const float sigma : {0.0f, 0.3f})
    for (const bool agnostic : {false, true}) {
      NmsOptions asked = options(15, 25);
      asked.score_threshold = 0.2f;
      asked.soft_nms_sigma = sigma;
      asked.class_agnostic = agnostic;
      const NmsResult result = batch_non_max_suppression(boxes, scores, asked, unit_window());
      for (int64_t b = 0; b < 3; ++b) {
        SCOPED_TRACE(::testing::Message() << "sigma " << sigma << " agnostic " << agnostic << " image " << b);
        const std::vector<Found> expected = detections_plainly(boxes[b], scores[b], asked);
        ASSERT_EQ(result.detections.count[b].item<int64_t>(), static_cast<int64_t>(expected.size()));
        EXPECT_GT(expected.size(), 5u);
        for (size_t i = 0; i < expected.size(); ++i) {
          const auto place = static_cast<int64_t>(i);
          EXPECT_EQ(result.indices[b][place].item<int64_t>(), expected[i].row) << i;
          EXPECT_EQ(result.detections.classes[b][place].item<int64_t>(), expected[i].label) << i;
          EXPECT_NEAR(result.detections.scores[b][place].item<float>(), expected[i].score, 1e-6) << i;
        }
      }
    }
}

TEST(BatchNonMaxSuppression, ThousandsOfCandidatesAreTakenInTheOrderOfOneList) {
  // Small boxes, of which many are kept; copies of one box before a lonely one; and scores of all kinds, in one class
  // all different, in one of nine values, in one the same.
  constexpr int64_t kBoxes = 5000, kCopies = 2600;
  at::manual_seed(5);
  const at::Tensor corner = at::rand({kBoxes, 2}) * 0.9,
                   boxes = at::cat({corner, corner + at::rand({kBoxes, 2}) * 0.02 + 0.01}, 1);
  boxes.slice(0, 0, kCopies).copy_(boxes[0].clone());
  const at::Tensor scores = at::rand({kBoxes, 4}) * 8 - 4;
  scores.select(1, 0).slice(0, 0, kCopies).add_(8);
  scores.select(1, 1).copy_(scores.select(1, 1).round());  // with zeros of both signs
  scores.select(1, 2).fill_(0.25);
  scores[kBoxes - 1][3] = std::numeric_limits<float>::infinity();
  scores[kBoxes - 2][3] = std::numeric_limits<float>::max();
  NmsOptions asked = options(1500, 4 * 1500);
  asked.score_threshold = -3;
  const NmsResult result = batch_non_max_suppression(boxes.unsqueeze(0), scores.unsqueeze(0), asked, unit_window());
  std::vector<Found> expected;
  for (int64_t label = 0; label < 4; ++label) {
    const Kept kept = non_max_suppression(boxes, scores.select(1, label), asked.max_detections_per_class,
                                          asked.iou_threshold, asked.score_threshold);
    EXPECT_GT(kept.indices.size(), 1024u) << "takes more than a batch";
    for (size_t i = 0; i < kept.indices.size(); ++i)
      if (kept.scores[i] >= 0) expected.push_back({kept.indices[i], label, kept.scores[i]});
  }
  std::stable_sort(expected.begin(), expected.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  ASSERT_EQ(result.detections.count.item<int64_t>(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    ASSERT_EQ(result.indices[0][place].item<int64_t>(), expected[i].row) << i;
    ASSERT_EQ(result.detections.classes[0][place].item<int64_t>(), expected[i].label) << i;
    ASSERT_EQ(result.detections.scores[0][place].item<float>(), expected[i].score) << i;
  }
}

TEST(BatchNonMaxSuppression, WithoutOverlapsAllScoresComeInOrder) {
  // More of one score than are looked for at once, NaN, infinities, rows that lie apart; nothing suppresses.
  constexpr int64_t kBoxes = 9000, kClasses = 3;
  at::manual_seed(6);
  const at::Tensor corner = at::rand({kBoxes, 2}) * 0.5, boxes = at::cat({corner, corner + 0.1}, 1);
  at::Tensor scores = at::rand({kBoxes, 1 + kClasses});
  scores.slice(0, 1000, 4000).fill_(0.75);
  scores.select(1, 1).copy_((scores.select(1, 1) * 4).round());
  scores[17][2] = std::numeric_limits<float>::quiet_NaN();
  scores[18][3] = std::numeric_limits<float>::infinity();
  scores = scores.narrow(1, 1, kClasses);
  NmsOptions asked = options(kBoxes, kBoxes * kClasses);
  asked.iou_threshold = std::numeric_limits<float>::infinity();
  asked.score_threshold = 0.125f;
  std::vector<Found> expected;
  for (int64_t label = 0; label < kClasses; ++label)
    for (int64_t row = 0; row < kBoxes; ++row)
      if (const float score = scores[row][label].item<float>(); score > asked.score_threshold)
        expected.push_back({row, label, score});
  std::stable_sort(expected.begin(), expected.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  const NmsResult result = batch_non_max_suppression(boxes.unsqueeze(0), scores.unsqueeze(0), asked, unit_window());
  ASSERT_EQ(result.detections.count.item<int64_t>(), static_cast<int64_t>(expected.size()));
  const int64_t *rows = result.indices.const_data_ptr<int64_t>(),
                *labels = result.detections.classes.const_data_ptr<int64_t>();
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(rows[i], expected[i].row) << i;
    ASSERT_EQ(labels[i], expected[i].label) << i;
  }
}

TEST(BatchNonMaxSuppression, ClassesThatAreFullDoNotHideWhatOthersHaveLeft) {
  // The first class has all it may have at once, and a hundred thousand more; of the second all are copies but the
  // worst of all, which comes after them.
  constexpr int64_t kBoxes = 100'000, kCopies = 50, kMost = 5;
  at::manual_seed(7);
  const at::Tensor corner = at::rand({kBoxes, 2}) * 0.9, boxes = at::cat({corner, corner + 0.01}, 1),
                   scores = at::zeros({kBoxes, 3});
  boxes.slice(0, 0, kCopies).copy_(boxes[0].clone());
  scores.select(1, 0).slice(0, kCopies, kBoxes - 1000).copy_(at::rand({kBoxes - 1000 - kCopies}) * 0.5 + 0.25);
  scores.select(1, 1).slice(0, 0, kCopies).copy_(at::linspace(1, 0.8, kCopies));
  scores[kBoxes - 1][1] = 0.125f;
  for (const float sigma : {0.0f, 0.1f}) {
    NmsOptions asked = options(kMost, 3 * kMost);
    asked.score_threshold = 0.1f;
    asked.soft_nms_sigma = sigma;
    const NmsResult result = batch_non_max_suppression(boxes.unsqueeze(0), scores.unsqueeze(0), asked, unit_window());
    const Kept first =
        non_max_suppression(boxes, scores.select(1, 0), kMost, asked.iou_threshold, asked.score_threshold, sigma);
    ASSERT_EQ(result.detections.count.item<int64_t>(), kMost + 2);
    EXPECT_EQ(result.indices[0][0].item<int64_t>(), 0);
    for (int64_t i = 0; i < kMost; ++i)
      EXPECT_EQ(result.indices[0][1 + i].item<int64_t>(), first.indices[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(result.indices[0][kMost + 1].item<int64_t>(), kBoxes - 1);
    EXPECT_EQ(result.detections.classes[0][kMost + 1].item<int64_t>(), 1);
  }
}

TEST(BatchNonMaxSuppression, EqualScoresComeAsFromTheCombinedOperator) {
  if (kernels::device::Emulation::active())
    GTEST_SKIP() << "a GPU's kernels leave equal scores in the order of their rows (non_max_suppression.h)";
  // Boxes side by side, so that nothing suppresses. The rows are those of tf.image.combined_non_max_suppression in
  // TensorFlow 2.15.1, with 8 of a class, for which there are 24 places, and with more of a class than there are boxes.
  constexpr int64_t kBoxes = 12, kClasses = 3;
  const at::Tensor x = at::arange(kBoxes, at::kFloat) / 16,
                   boxes = at::stack({at::zeros_like(x), x, at::ones_like(x), x + 1.0 / 16}, 1).unsqueeze(0);
  const at::Tensor mixed = at::arange(kBoxes).unsqueeze(1) * 7 + at::arange(kClasses) * 5,
                   scores = ((mixed.remainder(4) + 1).to(at::kFloat) / 8).unsqueeze(0);
  const auto rows = [&](int64_t per_class) {
    NmsOptions asked = options(per_class, 3 * per_class);
    asked.score_threshold = 0.3f;
    asked.change_coordinate_frame = false;
    asked.combined = true;
    const NmsResult result = batch_non_max_suppression(boxes, scores, asked);
    const at::Tensor found = result.indices[0].slice(0, 0, result.detections.count[0].item<int64_t>()).contiguous();
    return Indices(found.const_data_ptr<int64_t>(), found.const_data_ptr<int64_t>() + found.numel());
  };
  EXPECT_EQ(rows(8), (Indices{5, 9, 7, 11, 2, 6, 10, 3, 1, 7, 8, 0, 4, 3, 11, 2, 6, 10}));
  EXPECT_EQ(rows(20), (Indices{2, 3, 11, 7, 10, 6, 5, 9, 1, 11, 10, 4, 0, 8, 3, 7, 6, 2}));
}

TEST(BatchNonMaxSuppression, OfCodesIsThatOfTheirBoxes) {
  at::manual_seed(4);
  const at::Tensor corner = at::rand({70, 2}) * 0.5,
                   anchors = at::cat({corner, corner + at::rand({70, 2}) * 0.4 + 0.05}, 1),
                   codes = at::randn({3, 70, 4}), scores = at::rand({3, 70, 4});
  const BoxCoding coding{anchors, {10, 8, 5, 4}};
  const at::Tensor boxes = kernels::decode_boxes(codes, anchors, coding.scales);
  for (const float sigma : {0.0f, 0.3f})
    for (const bool agnostic : {false, true})
      for (const bool with_window : {false, true}) {
        NmsOptions asked = options(15, 25);
        asked.score_threshold = 0.2f;
        asked.soft_nms_sigma = sigma;
        asked.class_agnostic = agnostic;
        asked.change_coordinate_frame = with_window;
        const at::Tensor window = with_window ? unit_window() : at::Tensor();
        const NmsResult of_codes = batch_non_max_suppression(codes, scores, asked, window, {}, &coding),
                        of_boxes = batch_non_max_suppression(boxes, scores, asked, window);
        EXPECT_GT(of_boxes.detections.count.min().item<int64_t>(), 5);
        EXPECT_TRUE(at::equal(of_codes.indices, of_boxes.indices));
        EXPECT_TRUE(at::equal(of_codes.detections.boxes, of_boxes.detections.boxes));
        EXPECT_TRUE(at::equal(of_codes.detections.scores, of_boxes.detections.scores));
        EXPECT_TRUE(at::equal(of_codes.detections.classes, of_boxes.detections.classes));
      }
}

TEST(BatchNonMaxSuppression, LimitsHoldPerClassAndInTotal) {
  const at::Tensor boxes = row_of_boxes({0, 2, 4, 6}).unsqueeze(0) / 10;
  const at::Tensor scores = at::tensor({0.9f, 0.5f, 0.8f, 0.4f, 0.7f, 0.3f, 0.6f, 0.2f}).view({1, 4, 2});
  const NmsResult result = batch_non_max_suppression(boxes, scores, options(2, 3), unit_window());
  EXPECT_EQ(result.detections.count.item<int64_t>(), 3);
  expect_close(result.detections.scores, at::tensor({0.9f, 0.8f, 0.5f}).view({1, 3}), 0, 0, "scores");
}

TEST(BatchNonMaxSuppression, BoxesOutsideTheWindowLeaveRoomForOthers) {
  // The best box lies outside; the others become fractions of the window.
  const at::Tensor boxes =
      at::tensor({0.6f, 0.0f, 0.9f, 0.5f, 0.0f, 0.0f, 0.25f, 0.5f, 0.25f, 0.5f, 1.0f, 1.0f}).view({1, 3, 4});
  const at::Tensor scores = at::tensor({0.9f, 0.8f, 0.7f}).view({1, 3, 1}),
                   window = at::tensor({0.0f, 0.0f, 0.5f, 1.0f});
  const NmsResult result = batch_non_max_suppression(boxes, scores, options(2, 2), window);
  // Two are kept before clipping, of which one is left.
  EXPECT_EQ(result.detections.count.item<int64_t>(), 1);
  expect_close(result.detections.boxes[0][0], at::tensor({0.0f, 0.0f, 0.5f, 0.5f}), 0, 0, "box");
  NmsOptions plain = options(3, 3);
  plain.change_coordinate_frame = false;
  const NmsResult all = batch_non_max_suppression(boxes, scores, plain, window);
  EXPECT_EQ(all.detections.count.item<int64_t>(), 2);
  expect_close(all.detections.boxes[0][1], at::tensor({0.25f, 0.5f, 0.5f, 1.0f}), 0, 0, "clipped box");
}

TEST(BatchNonMaxSuppression, RowsAfterNumValidArePadding) {
  const at::Tensor boxes = row_of_boxes({0, 2, 4}).unsqueeze(0).expand({2, 3, 4}) / 10,
                   scores = at::full({2, 3, 1}, 0.5);
  const NmsResult result =
      batch_non_max_suppression(boxes, scores, options(5, 5), unit_window(), at::tensor({1, 0}, at::kLong));
  expect_close(result.detections.count, at::tensor({1, 0}), 0, 0, "count");
}

TEST(BatchNonMaxSuppression, NoAnchorsGiveNoDetections) {
  const NmsResult result =
      batch_non_max_suppression(at::zeros({2, 0, 4}), at::zeros({2, 0, 3}), options(5, 5), unit_window());
  EXPECT_EQ(result.detections.boxes.sizes(), at::IntArrayRef({2, 5, 4}));
  EXPECT_EQ(result.detections.count.sum().item<int64_t>(), 0);
  EXPECT_EQ(batch_non_max_suppression(at::zeros({0, 3, 4}), at::zeros({0, 3, 3}), options(5, 5), unit_window())
                .detections.count.size(0),
            0);
}

TEST(BatchNonMaxSuppression, WrongShapesThrow) {
  EXPECT_THROW(batch_non_max_suppression(at::zeros({1, 2, 4}), at::zeros({1, 3, 1}), options(1, 1), unit_window()),
               c10::Error);
  EXPECT_THROW(batch_non_max_suppression(at::zeros({1, 3, 2, 4}), at::zeros({1, 3, 3}), options(1, 1), unit_window()),
               c10::Error);
  EXPECT_THROW(batch_non_max_suppression(at::zeros({1, 3, 4}), at::zeros({1, 3, 3}), options(1, 1)), c10::Error);
  const BoxCoding coding{at::zeros({2, 4}), {}};
  EXPECT_THROW(
      batch_non_max_suppression(at::zeros({1, 3, 4}), at::zeros({1, 3, 3}), options(1, 1), unit_window(), {}, &coding),
      c10::Error)
      << "anchors of other boxes";
}

}  // namespace
}  // namespace osprey::boxes
