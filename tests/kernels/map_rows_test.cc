#include "kernels/device/map_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/device/batch_norm.h"
#include "kernels/device/depthwise_weights.h"
#include "kernels/device/launch.h"
#include "support/golden.h"

namespace osprey::kernels::device {
namespace {

using ::osprey::testing::expect_close;

template <int kWidth>
void expect_each_element_once(int64_t rows, int64_t depth, int64_t most_blocks) {
  constexpr int64_t kLeastRows = 4;
  const RowShares<kWidth> shares(rows, depth, most_blocks, kLeastRows);
  std::vector<int> seen(static_cast<size_t>(rows * depth));
  for (int64_t block = 0; block < shares.blocks(); ++block)
    for (int thread = 0; thread < RowShares<kWidth>::kThreads; ++thread) {
      const auto share = shares.of(block, thread);
      if (share.channel < 0) continue;
      if (shares.row_block(block) + 1 < shares.row_blocks) {
        ASSERT_EQ(share.count % kLeastRows, 0);
      }
      for (int64_t row = 0; row < share.count; ++row)
        for (int k = 0; k < kWidth; ++k) {
          const int64_t at = share.at + row * share.step + k;
          ASSERT_EQ(at % depth, share.channel + k);
          ++seen[static_cast<size_t>(at)];
        }
    }
  for (const int times : seen) ASSERT_EQ(times, 1) << rows << " rows of " << depth << ", " << most_blocks << " blocks";
}

TEST(RowShares, GiveEachElementToOneThread) {
  for (const int64_t rows : {0, 1, 7, 100, 1025})
    for (const int64_t most_blocks : {1, 5, 4096}) {
      for (const int64_t depth : {1, 3, 96, 300}) expect_each_element_once<1>(rows, depth, most_blocks);
      for (const int64_t depth : {8, 24, 288, 2048}) expect_each_element_once<8>(rows, depth, most_blocks);
    }
}

template <int kWidth>
void expect_moments(int64_t rows, int64_t depth, int64_t most_blocks) {
  const at::Tensor x = at::randn({rows, depth}) + 50;
  const RowShares<kWidth> shares(rows, depth, most_blocks);
  const at::Tensor parts = at::empty({shares.row_blocks, 2, depth}, at::kDouble),
                   sums = at::empty({2, depth}, at::kDouble);
  launch(x, shares.blocks(),
         ColumnSums<Moments<float, kWidth>>{{x.const_data_ptr<float>()}, shares, parts.mutable_data_ptr<double>()});
  const AddParts<KeepSums> add{
      parts.const_data_ptr<double>(), shares.row_blocks, depth, {depth, sums.mutable_data_ptr<double>()}};
  launch(x, add.blocks(), add);
  const at::Tensor exact = x.to(at::kDouble);
  expect_close(sums, at::stack({exact.sum(0), exact.square().sum(0)}), 1e-8, 0, "moments");
}

TEST(ColumnSums, AreThoseOfAllRowsHoweverFewTheBlocks) {
  for (const int64_t most_blocks : {1, 3, 2048})  // by the first a thread has more rows than it sums as floats
    for (const int64_t rows : {1, 1000, 5003}) {
      expect_moments<1>(rows, 5, most_blocks);
      expect_moments<4>(rows, 136, most_blocks);
    }
}

/// By so few blocks that a thread has many strips, each of so many lines.
template <int kStride>
void expect_weight_sums(int64_t most_blocks, int64_t lines_of_strip) {
  constexpr int kDepth = 136, kHeight = 21, kWidth = 18, kLines = (kHeight - 1) / kStride + 1,
                kPixels = (kWidth - 1) / kStride + 1;
  const auto map = [](int64_t height, int64_t width) {
    return at::randn({2, kDepth, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor x = map(kHeight, kWidth), gradient = map(kLines, kPixels);
  const DepthwiseWindow window{kHeight, kWidth, kLines, kPixels, 1, 1, kDepth};
  const at::Tensor kernel = at::randn({kDepth, 1, 3, 3}, at::kDouble).requires_grad_();
  at::conv2d(x.to(at::kDouble), kernel, {}, {kStride, kStride}, at::IntArrayRef{1, 1}, {1, 1}, kDepth)
      .backward(gradient.to(at::kDouble));

  using Sums = DepthwiseWeightSums<float, 3, kStride>;
  const Strips<Sums::kRun> strips(kLines, kPixels, lines_of_strip);
  const RowShares<kDepthwiseWidth, Sums::kThreads> shares(2 * strips.of_a_picture(), kDepth, most_blocks, 1);
  const at::Tensor parts = at::empty({shares.row_blocks, 9, kDepth}, at::kDouble);
  launch(x, shares.blocks(),
         Sums{shares, strips, window, gradient.const_data_ptr<float>(), x.const_data_ptr<float>(),
              parts.mutable_data_ptr<double>()});
  expect_close(parts.sum(0).t().reshape({kDepth, 1, 3, 3}).to(at::kFloat), kernel.grad().to(at::kFloat), 1e-5, 1e-4,
               "gradient of the weights");
}

TEST(Depthwise, AThreadHasManyStripsOfAnyLength) {
  for (const int64_t most_blocks : {1, 3, 4096})
    for (const int64_t lines_of_strip : {1, 2, 5, 21, 40}) {
      expect_weight_sums<1>(most_blocks, lines_of_strip);
      expect_weight_sums<2>(most_blocks, lines_of_strip);
    }
}

}  // namespace
}  // namespace osprey::kernels::device
