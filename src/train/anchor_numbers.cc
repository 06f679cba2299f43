#include "train/anchor_numbers.h"

#include <fmt/format.h>

#include <algorithm>

namespace osprey::train {
namespace {

float three_digits(double number) { return std::stof(fmt::format("{:.3g}", number)); }

/// Replaces the first numbers of a list, and adds those that it does not have.
void put(const std::vector<double>& numbers, google::protobuf::RepeatedField<float>& list) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto place = static_cast<int>(i);
    if (place < list.size())
      list.Set(place, three_digits(numbers[i]));
    else
      list.Add(three_digits(numbers[i]));
  }
}

/// Of a generator that says only the first and the last.
std::vector<double> listed_scales(const protos::SsdAnchorGenerator& ssd) {
  std::vector<double> scales;
  const double first = ssd.min_scale(), last = ssd.max_scale();
  for (int i = 0; i < ssd.num_layers(); ++i)
    scales.push_back(first + (last - first) * i / std::max(1, ssd.num_layers() - 1));
  return scales;
}

}  // namespace

bool AnchorNumbers::in_bounds() const {
  const auto within = [](double low, double high) { return [=](double x) { return x >= low && x <= high; }; };
  return std::ranges::is_sorted(scales) && std::ranges::all_of(scales, within(least, most)) &&
         std::ranges::all_of(aspect_ratios, within(0.1, 10));
}

bool has_numbers(const protos::AnchorGenerator& generator) {
  return generator.has_ssd_anchor_generator() || generator.has_multiscale_anchor_generator();
}

AnchorNumbers numbers_of(const protos::AnchorGenerator& generator) {
  if (generator.has_multiscale_anchor_generator()) {
    const auto& pyramid = generator.multiscale_anchor_generator();
    return {{pyramid.anchor_scale()}, {pyramid.aspect_ratios().begin(), pyramid.aspect_ratios().end()}, 1, 8};
  }
  const auto& ssd = generator.ssd_anchor_generator();
  AnchorNumbers result{
      {ssd.min_scale(), ssd.max_scale()}, {ssd.aspect_ratios().begin(), ssd.aspect_ratios().end()}, 0.01, 1};
  if (ssd.scales_size() > 0) result.scales.assign(ssd.scales().begin(), ssd.scales().begin() + ssd.num_layers());
  return result;
}

protos::AnchorGenerator with_numbers(protos::AnchorGenerator generator, const AnchorNumbers& numbers) {
  if (generator.has_multiscale_anchor_generator()) {
    auto& pyramid = *generator.mutable_multiscale_anchor_generator();
    pyramid.set_anchor_scale(three_digits(numbers.scales.front()));
    put(numbers.aspect_ratios, *pyramid.mutable_aspect_ratios());
    return generator;
  }
  auto& ssd = *generator.mutable_ssd_anchor_generator();
  put(numbers.aspect_ratios, *ssd.mutable_aspect_ratios());
  if (ssd.scales_size() > 0) {
    put(numbers.scales, *ssd.mutable_scales());
  } else {
    ssd.set_min_scale(three_digits(numbers.scales.front()));
    ssd.set_max_scale(three_digits(numbers.scales.back()));
  }
  return generator;
}

std::vector<protos::AnchorGenerator> as_many_anchors(const protos::AnchorGenerator& generator) {
  std::vector<protos::AnchorGenerator> result;
  if (generator.has_ssd_anchor_generator()) {
    const auto& ssd = generator.ssd_anchor_generator();
    if (ssd.scales_size() == 0)
      put(listed_scales(ssd), *result.emplace_back(generator).mutable_ssd_anchor_generator()->mutable_scales());
    return result;
  }
  const auto& pyramid = generator.multiscale_anchor_generator();
  const int of_cell = pyramid.scales_per_octave() * pyramid.aspect_ratios_size();
  constexpr int kMost = 4;
  for (int scales = 1; scales <= std::min(kMost, of_cell); ++scales) {
    if (of_cell % scales != 0 || scales == pyramid.scales_per_octave()) continue;
    auto& other = *result.emplace_back(generator).mutable_multiscale_anchor_generator();
    other.set_scales_per_octave(scales);
    other.mutable_aspect_ratios()->Resize(of_cell / scales, 1);
  }
  return result;
}

}  // namespace osprey::train
