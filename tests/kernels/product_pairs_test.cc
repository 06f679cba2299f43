#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/cpu/loops/winograd_rows.h"
#include "kernels/cpu/place_products.h"
#include "kernels/cpu/place_sums.h"
#include "kernels/device/launch.h"
#include "kernels/rounded_numbers.h"

/// Products of pairs and of tiles of bfloat16 numbers are those of the numbers, rounded and then multiplied and summed
/// as floats: by instructions for them, or by what stands for these elsewhere.
namespace osprey::kernels::cpu {
namespace {

class RoundedProducts : public ::testing::TestWithParam<Arithmetic> {};

INSTANTIATE_TEST_SUITE_P(By, RoundedProducts, ::testing::Values(Arithmetic::kPairs, Arithmetic::kAmx),
                         [](const auto& by) { return by.param == Arithmetic::kAmx ? "Amx" : "Pairs"; });

TEST_P(RoundedProducts, OfPlacesAreThoseOfRoundedNumbers) {
  at::manual_seed(51);
  for (const int64_t depth : {1, 2, 19, 64, 273})
    for (const int64_t columns : {1, 16, 85})
      for (const int64_t count : {6, 7, 29})
        for (const bool transposed : {false, true}) {
          const std::string what = fmt::format("{} x {} x {}, transposed: {}", count, depth, columns, transposed);
          const at::Tensor weights = at::randn({transposed ? depth : columns, transposed ? columns : depth}),
                           biases = transposed ? at::Tensor() : at::randn({columns}),
                           places = at::randn({count, depth}), halves = places.to(at::kBFloat16),
                           made = at::empty({count, columns});
          const PlaceProducts products(weights, biases, transposed, GetParam());
          at::Tensor expected = rounded(places).mm(transposed ? rounded(weights) : rounded(weights).t());
          if (biases.defined()) expected = expected + biases;
          auto* const to = made.mutable_data_ptr<float>();
          products.multiply(places.const_data_ptr<float>(), count, {}, to);
          expect_sums(made, expected, what + ", floats");
          made.zero_();
          products.multiply(device::data<const Bfloat16>(halves), count, {}, to);
          expect_sums(made, expected, what + ", halves");
        }
}

/// As groups sum them, and as threads sum columns of them, in panels of rows and columns that are not full.
TEST_P(RoundedProducts, SumsOverPlacesAreThoseOfRoundedNumbers) {
  at::manual_seed(52);
  const auto expect = [&](int64_t O, int64_t I, int64_t count, double scale) {
    const at::Tensor a = at::randn({count, O}) * scale, b = at::randn({count, I}), a_halves = a.to(at::kBFloat16),
                     b_halves = b.to(at::kBFloat16), expected = rounded(a).t().mm(rounded(b)).view({O, I, 1, 1});
    const std::string what = fmt::format("{} x {}, {} places", O, I, count);
    expect_sums(sum_over_places(a.const_data_ptr<float>(), O, b.const_data_ptr<float>(), I, count, GetParam()),
                expected, what + ", floats");
    expect_sums(sum_over_places(device::data<const Bfloat16>(a_halves), O, device::data<const Bfloat16>(b_halves), I,
                                count, GetParam()),
                expected, what + ", halves");
  };
  for (const auto& [O, I] :
       {std::pair<int64_t, int64_t>{1, 1}, {8, 24}, {19, 37}, {64, 128}, {85, 64}, {301, 501}, {641, 421}})
    for (const int64_t count : {6, 7, 131, 1100}) expect(O, I, count, 1);
  expect(1, 270000, 7, 1);
  expect(270000, 1, 7, 1);
  expect(64, 4200, 3101, 0.125);  // packed in several rounds, by AMX in several parts
}

/// What pack_pairs writes, [panels, pixel pairs, kPanelColumns, 2], into memory of which every number is looked at.
template <class T>
at::Tensor packed(const at::Tensor& map, bool in_rows) {
  constexpr float kUntouched = 12345;
  const int64_t pixels = map.size(0), channels = map.size(1), pairs = (pixels + 1) / 2,
                panels = (channels + kPanelColumns - 1) / kPanelColumns,
                step = in_rows ? row_step_for(channels) : kPanelColumns,
                panel_step = in_rows ? kPanelColumns : pairs * kPanelColumns;
  const at::Tensor memory = at::full({std::max(panels * panel_step, pairs * step) + kPanelColumns}, kUntouched);
  pack_pairs(device::data<const T>(map), channels, pixels, channels, memory.mutable_data_ptr<float>(), step,
             panel_step);
  const at::Tensor result = memory.as_strided({panels, pairs, kPanelColumns}, {panel_step, step, 1}).clone();
  memory.as_strided({panels, pairs, kPanelColumns}, {panel_step, step, 1}).fill_(kUntouched);
  EXPECT_TRUE((memory == kUntouched).all().item<bool>()) << "wrote beside the panels";
  return result.view(at::kBFloat16).view({panels, pairs, kPanelColumns, 2}).to(at::kDouble);
}

TEST(ProductPairs, ArePackedWithZerosWhereThereIsNothing) {
  at::manual_seed(54);
  for (const bool in_rows : {false, true})
    for (const int64_t channels : {1, 5, 8, 15, 16, 17, 19, 85})
      for (const int64_t pixels : {1, 2, 15, 16, 17, 18, 31, 32, 33}) {
        const at::Tensor map = at::randn({pixels, channels}), halves = map.to(at::kBFloat16);
        const int64_t missing = (kPanelColumns - channels % kPanelColumns) % kPanelColumns;
        const at::Tensor expected = at::constant_pad_nd(rounded(map), {0, missing, 0, pixels % 2})
                                        .view({(pixels + 1) / 2, 2, -1, kPanelColumns})
                                        .permute({2, 0, 3, 1});
        const std::string what = fmt::format("{} pixels of {} channels, in rows: {}", pixels, channels, in_rows);
        EXPECT_TRUE(at::equal(packed<float>(map, in_rows), expected)) << what << ", floats";
        EXPECT_TRUE(at::equal(packed<Bfloat16>(halves, in_rows), expected)) << what << ", halves";
      }
}

/// In one pass, what comes of normalising rows and packing them then, bit for bit.
TEST(ProductPairs, OfNormalizedRowsArePackedAsTheyAreMade) {
  at::manual_seed(57);
  for (const int64_t channels : {1, 8, 16, 19, 24, 31, 85})
    for (const int64_t pixels : {1, 2, 3, 4, 7, 33})
      for (const Epilogue& epilogue : {Epilogue{.low = 0, .high = 6}, Epilogue{.curve = Epilogue::Curve::kSwish}}) {
        const at::Tensor map = at::randn({pixels, channels}).to(at::kBFloat16), normalized = at::empty_like(map),
                         of_channels = at::rand({3, channels}) + 0.5;
        const auto* const numbers = of_channels.const_data_ptr<float>();
        const ChannelAffine affine{numbers, numbers + channels, numbers + 2 * channels, epilogue};
        const int64_t panels = (channels + kPanelColumns - 1) / kPanelColumns,
                      panel = ((pixels + 1) / 2 + 3) * kPanelColumns;  // more than is written
        const at::Tensor expected = at::full({panels * panel}, 7.0f), found = expected.clone();
        normalize_rows(device::data<const Bfloat16>(map), pixels, channels, channels, affine,
                       device::data<Bfloat16>(normalized));
        pack_pairs(device::data<const Bfloat16>(normalized), channels, pixels, channels,
                   expected.mutable_data_ptr<float>(), kPanelColumns, panel);
        normalize_pairs(device::data<const Bfloat16>(map), pixels, channels, affine, found.mutable_data_ptr<float>(),
                        panel);
        EXPECT_TRUE(at::equal(found.view(at::kInt), expected.view(at::kInt)))
            << pixels << " pixels of " << channels << " channels";
      }
}

/// Columns that a batch norm normalises as they are packed, wherever a task's places begin.
TEST_P(RoundedProducts, SumsOfColumnsThatAreMadeArePackedOnesBitForBit) {
  at::manual_seed(58);
  constexpr int64_t kPlaces = 1101;
  for (const auto& [O, I] : {std::pair<int64_t, int64_t>{19, 37}, {641, 421}}) {
    const at::Tensor a = at::randn({kPlaces, O}).to(at::kBFloat16), b = at::randn({kPlaces, I}).to(at::kBFloat16),
                     normalized = at::empty_like(b), of_channels = at::rand({3, I}) + 0.5;
    const auto* const numbers = of_channels.const_data_ptr<float>();
    const ChannelAffine affine{numbers, numbers + I, numbers + 2 * I, {.low = 0, .high = 6}};
    const auto *const rows = device::data<const Bfloat16>(a), *const columns = device::data<const Bfloat16>(b);
    normalize_rows(columns, kPlaces, I, I, affine, device::data<Bfloat16>(normalized));
    const at::Tensor found =
        PlaceSums(O, I, kPlaces, GetParam()).of([&](int64_t, int64_t begin, int64_t end, const PlacePiece& piece) {
          piece.pack_rows(rows + begin * O);
          piece.make_columns([&](float* to, int64_t panel_size) {
            normalize_pairs(columns + begin * I, end - begin, I, affine, to, panel_size);
          });
          return PlaceSums::Next{};
        });
    EXPECT_TRUE(
        at::equal(found, sum_over_places(rows, O, device::data<const Bfloat16>(normalized), I, kPlaces, GetParam())))
        << O << " x " << I;
  }
}

/// Of a tile with none after it.
template <class T>
TilePlaces<T> of(const std::vector<const T*>& places) {
  return {places.data(), places.data()};
}

/// The transforms of Winograd's tiles of bfloat16 numbers are those of the same floats, rounded.
TEST(ProductPairs, OfTilesAreThoseOfFloatsRounded) {
  at::manual_seed(55);
  for (const int64_t results : {2, 3, 4})
    for (const int64_t channels : {16, 21, 48}) {
      const int64_t transformed = (results + 2) * (results + 2);
      const at::Tensor places = at::randn({transformed, channels}).to(at::kBFloat16), floats = places.to(at::kFloat);
      std::vector<const Bfloat16*> halves;
      std::vector<const float*> singles;
      for (int64_t i = 0; i < transformed; ++i) {
        halves.push_back(device::data<const Bfloat16>(places) + i * channels);
        singles.push_back(floats.const_data_ptr<float>() + i * channels);
      }
      const auto expect_rounded = [&](const at::Tensor& found, const at::Tensor& expected, const char* what) {
        EXPECT_TRUE(at::equal(found, expected.to(at::kBFloat16)))
            << what << ", " << channels << " channels, " << results << " results";
      };
      at::Tensor found = at::empty_like(places), expected = at::empty_like(floats);
      transform_seen(results, of(halves), nullptr, channels, device::data<Bfloat16>(found), kPanelColumns, channels);
      transform_seen(results, of(singles), nullptr, channels, expected.mutable_data_ptr<float>(), kPanelColumns,
                     channels);
      expect_rounded(found, expected, "seen");

      const at::Tensor biases = at::randn({channels}), plain = at::empty({results * results, channels}),
                       half = at::empty({results * results, channels}, at::kBFloat16);
      std::vector<float*> made;
      std::vector<Bfloat16*> half_made;
      for (int64_t i = 0; i < results * results; ++i) {
        made.push_back(plain.mutable_data_ptr<float>() + i * channels);
        half_made.push_back(device::data<Bfloat16>(half) + i * channels);
      }
      const auto* const products = floats.const_data_ptr<float>();
      transform_products(results, products, channels, channels, biases.const_data_ptr<float>(), nullptr, made.data(),
                         made.data());
      transform_products(results, products, channels, channels, biases.const_data_ptr<float>(), nullptr,
                         half_made.data(), half_made.data());
      expect_rounded(half, plain, "products");
    }
}

/// So are those of two tiles, or of two rows of weights, that are put together as pairs.
TEST(ProductPairs, OfTwoTilesAreThoseOfTheirFloatsRounded) {
  at::manual_seed(56);
  for (const int64_t results : {2, 3, 4}) {
    const int64_t transformed = (results + 2) * (results + 2);
    const auto expect_pairs = [&](const at::Tensor& found, const at::Tensor& one, const at::Tensor& other,
                                  const char* what) {
      EXPECT_TRUE(at::equal(found.view(at::kBFloat16).view({one.size(0), -1, 2}),
                            at::stack({one.flatten(1), other.flatten(1)}, 2).to(at::kBFloat16)))
          << what << ", " << results << " results";
    };
    for (const int64_t channels : {16, 21, 48}) {
      const at::Tensor places = at::randn({2, transformed, channels}).to(at::kBFloat16), floats = places.to(at::kFloat);
      std::array<std::vector<const Bfloat16*>, 2> halves;
      std::array<std::vector<const float*>, 2> singles;
      for (int64_t i = 0; i < 2 * transformed; ++i) {
        halves[static_cast<size_t>(i / transformed)].push_back(device::data<const Bfloat16>(places) + i * channels);
        singles[static_cast<size_t>(i / transformed)].push_back(floats.const_data_ptr<float>() + i * channels);
      }
      at::Tensor found = at::empty({transformed, channels}), expected = at::empty({2, transformed, channels});
      auto* const to = found.mutable_data_ptr<float>();
      transform_seen_to_pairs(results, of(halves[0]), nullptr, of(halves[1]), nullptr, channels, to, kPanelColumns,
                              channels);
      for (size_t i = 0; i < 2; ++i)
        transform_seen(results, of(singles[i]), nullptr, channels,
                       expected.mutable_data_ptr<float>() + i * found.numel(), kPanelColumns, channels);
      expect_pairs(found, expected[0], expected[1], "seen");
      transform_wanted_to_pairs(results, of(halves[0]), of(halves[1]), channels, to, channels);
      for (size_t i = 0; i < 2; ++i)
        transform_wanted(results, of(singles[i]), channels, expected.mutable_data_ptr<float>() + i * found.numel(),
                         channels);
      expect_pairs(found, expected[0], expected[1], "wanted");
    }
    for (const int64_t rows : {1, 2, 5}) {
      const int64_t pairs = (rows + 1) / 2;
      const at::Tensor taps = at::randn({rows, kTaps, kPanelColumns}),
                       found = at::empty({transformed, pairs, kPanelColumns}),
                       expected = at::zeros({transformed, 2 * pairs, kPanelColumns});
      transform_weights_to_pairs(results, taps.const_data_ptr<float>(), kPanelColumns, taps.stride(0), rows,
                                 found.mutable_data_ptr<float>(), found.stride(0));
      transform_weights(results, taps.const_data_ptr<float>(), kPanelColumns, taps.stride(0), rows,
                        expected.mutable_data_ptr<float>(), expected.stride(0));
      expect_pairs(found.view({transformed, -1}), expected.slice(1, 0, 2 * pairs, 2),
                   expected.slice(1, 1, 2 * pairs, 2), "weights");
    }
  }
}

TEST(ProductPairs, OfFloatsAreNotRounded) {
  at::manual_seed(53);
  const auto expect = [](const at::Tensor& a, const at::Tensor& b) {
    const int64_t count = a.size(0), O = a.size(1), I = b.size(1);
    expect_sums(sum_over_places(a.const_data_ptr<float>(), O, b.const_data_ptr<float>(), I, count, Arithmetic::kFloats),
                a.to(at::kDouble).t().mm(b.to(at::kDouble)).view({O, I, 1, 1}), fmt::format("{} places", count));
  };
  expect(at::randn({131, 19}), at::randn({131, 37}));
  expect(at::randn({4000, 600}) / 8, at::randn({4000, 700}));  // more than are packed at a time
}

TEST_P(RoundedProducts, ANumberThatIsNoNumberShows) {
  at::Tensor places = at::ones({6, 5});
  places[2][4] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor made = at::empty({6, 3});
  PlaceProducts(at::ones({3, 5}), {}, false, GetParam())
      .multiply(places.const_data_ptr<float>(), 6, {}, made.mutable_data_ptr<float>());
  EXPECT_TRUE(at::equal(made.isnan(), (at::arange(6) == 2).unsqueeze(1).expand({6, 3})));
  EXPECT_TRUE(at::equal(made[0], at::full({3}, 5.0F)));
}

}  // namespace
}  // namespace osprey::kernels::cpu
