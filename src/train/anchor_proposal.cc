#include "train/anchor_proposal.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "osprey/boxes/builder.h"
#include "train/anchor_fit.h"
#include "train/anchor_numbers.h"

namespace osprey::train {
namespace {

std::unique_ptr<boxes::AnchorGenerator> built(const proto::AnchorGenerator& generator) {
  return boxes::build_anchor_generator({generator, "anchor_generator", nullptr});
}

/// A generator and how well it fits.
struct Tried {
  AnchorNumbers numbers;
  proto::AnchorGenerator generator;
  AnchorFit::Score score;
};

Tried tried(const proto::AnchorGenerator& like, const AnchorNumbers& numbers, const AnchorFit& fit) {
  Tried result{numbers, with_numbers(like, numbers), {}};
  result.score = fit.of(*built(result.generator));
  return result;
}

/// Changes one number after the other by smaller and smaller factors, as long as that fits better.
Tried climbed(Tried best, const AnchorFit& fit) {
  constexpr int kMostRounds = 8;  // with one factor; seldom more than three are needed
  for (const double octaves : {1.0, 0.5, 0.25, 0.125, 0.0625}) {
    bool better = true;
    for (int round = 0; better && round < kMostRounds; ++round) {
      better = false;
      const auto change = [&](auto list, size_t i, double factor) {
        AnchorNumbers numbers = best.numbers;
        (numbers.*list)[i] *= factor;
        if (!numbers.in_bounds()) return;
        Tried next = tried(best.generator, numbers, fit);
        if (!next.score.better_than(best.score)) return;
        best = std::move(next);
        better = true;
      };
      for (const auto list : {&AnchorNumbers::scales, &AnchorNumbers::aspect_ratios})
        for (size_t i = 0; i < (best.numbers.*list).size(); ++i)
          for (const double factor : {std::exp2(octaves), std::exp2(-octaves)}) change(list, i, factor);
    }
  }
  return best;
}

/// Aspect ratios in the middle of as many parts of the boxes, in order, as there are ratios.
std::vector<double> even_ratios(const std::vector<Box>& boxes, const std::array<int64_t, 2>& input_size, size_t count) {
  std::vector<double> all, result;
  for (const Box& box : boxes)
    all.push_back(box.width() * static_cast<double>(input_size[1]) /
                  (box.height() * static_cast<double>(input_size[0])));
  std::ranges::sort(all);
  for (size_t i = 0; i < count; ++i)
    result.push_back(std::clamp(all[(2 * i + 1) * all.size() / (2 * count)], 0.1, 10.0));
  return result;
}

int64_t count_reached(const proto::AnchorGenerator& generator, const AnchorPlaces& places,
                      const std::vector<Box>& boxes) {
  const AnchorReach reach = anchor_reach_of(*built(generator), places);
  return std::ranges::count_if(boxes, [&](const Box& box) { return reach.reaches(box); });
}

std::string pasted_text(const proto::AnchorGenerator& generator) {
  std::string fields, text = "anchor_generator {\n";
  google::protobuf::TextFormat::PrintToString(generator, &fields);
  std::istringstream lines(fields);
  for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
  return text + "}\n";
}

}  // namespace

std::optional<AnchorSearch> search_anchors(const config::ConfigNode<proto::AnchorGenerator>& now,
                                           const AnchorPlaces& places, const std::vector<Box>& boxes) {
  constexpr size_t kFewest = 100;
  if (boxes.size() < kFewest || !has_numbers(*now)) return std::nullopt;
  const AnchorFit fit(*built(*now), places, boxes);
  const auto searched = [&](const proto::AnchorGenerator& like) {
    AnchorNumbers numbers = numbers_of(like);
    const Tried near = climbed(tried(like, numbers, fit), fit);
    numbers.aspect_ratios = even_ratios(boxes, places.input_size, numbers.aspect_ratios.size());
    const Tried far = climbed(tried(like, numbers, fit), fit);
    return far.score.better_than(near.score) ? far : near;
  };
  std::vector<Tried> found{searched(*now)};  // the most similar first
  for (const proto::AnchorGenerator& like : as_many_anchors(found.front().generator)) found.push_back(searched(like));
  const auto notable = static_cast<int64_t>(boxes.size()) / 50;
  int64_t most = fit.of(*built(*now)).reached;
  const Tried* best = nullptr;
  for (const Tried& other : found)
    if (other.score.reached >= most + notable) {
      best = &other;
      most = other.score.reached;
    }
  AnchorSearch result{static_cast<int64_t>(boxes.size()), count_reached(*now, places, boxes), std::nullopt};
  if (best != nullptr) result.proposal = {count_reached(best->generator, places, boxes), pasted_text(best->generator)};
  return result;
}

}  // namespace osprey::train
