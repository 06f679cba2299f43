#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/winograd_rows.h"
#include "kernels/cpu/winograd_panels.h"
#include "kernels/device/launch.h"

/// Maps as tiles of several places; see loops/winograd_rows.h.
namespace osprey::kernels::cpu {

/// The places of maps in tiles, those at the end of a line or a picture perhaps with fewer.
class Tiles {
 public:
  Tiles(at::TensorList maps, const TileSize& size) : results_(size.results) {
    for (const at::Tensor& map : maps) {
      maps_.push_back({map.size(2), map.size(3), device::blocks_for(map.size(2), results_),
                       device::blocks_for(map.size(3), results_), count_});
      count_ += map.size(0) * maps_.back().high * maps_.back().wide;
    }
  }
  int64_t count() const { return count_; }
  size_t maps() const { return maps_.size(); }
  int64_t first_of(size_t map) const { return maps_[map].first; }
  int64_t count_of(size_t map) const { return (map + 1 < maps() ? first_of(map + 1) : count_) - first_of(map); }
  size_t map_of(int64_t tile) const {
    size_t map = maps() - 1;
    while (first_of(map) > tile) --map;
    return map;
  }

  /// Calls work(index, number among the places of all pictures of its map) for side x side places of a tile, row by
  /// row, from `before` places before its first on; a place outside of the picture is -1.
  template <class Work>
  void for_places(int64_t tile, int64_t side, int64_t before, const Work& work) const {
    const Map& map = maps_[map_of(tile)];
    const int64_t own = tile - map.first, picture = own / (map.high * map.wide),
                  line = own / map.wide % map.high * results_ - before, column = own % map.wide * results_ - before;
    size_t i = 0;
    for (int64_t y = line; y < line + side; ++y)
      for (int64_t x = column; x < column + side; ++x)
        work(i++,
             y >= 0 && y < map.height && x >= 0 && x < map.width ? (picture * map.height + y) * map.width + x : -1);
  }

 private:
  struct Map {
    int64_t height, width, high, wide;
    int64_t first;  ///< of its tiles
  };
  int64_t results_, count_ = 0;
  std::vector<Map> maps_;
};

/// Tiles of 4 x 4 results take 9 products for each 16 of those of 2 x 2, but matrices of weights that are as much
/// larger, and more places beyond the picture: not where all maps are small. What is multiplied in pairs is rounded
/// first, which shows the more the larger tiles are: tiles of 3 x 3 are off by 0.6 %, those of 4 x 4 would be by 1.2 %.
inline TileSize tile_for(at::TensorList maps, bool in_pairs) {
  constexpr int64_t kLeastSide = 16;
  const bool small =
      std::ranges::all_of(maps, [](const at::Tensor& map) { return std::min(map.size(2), map.size(3)) < kLeastSide; });
  return {small ? 2 : in_pairs ? 3 : 4};
}

/// The same for maps that are normalised as they are read. What is multiplied in pairs, and so rounded, must not depend
/// on which maps are convolved together.
inline TileSize tile_for_normalized(at::TensorList maps, bool in_pairs) {
  return in_pairs ? TileSize{3} : tile_for(maps, in_pairs);
}

template <class T>
std::vector<T*> first_places(at::TensorList maps) {
  std::vector<T*> result;
  for (const at::Tensor& map : maps) result.push_back(device::data<T>(map));
  return result;
}

/// What is pending of each of some maps, if anything is: clamps only.
using Affines = std::vector<std::optional<Affine>>;

/// The channels of the places of tiles as what factors are made of; where they lie outside of the picture, zeros.
template <class T, class Factor>
class Places {
 public:
  /// affines  of what is pending of each map; empty: nothing is
  /// side     of what is looked at of a tile
  /// before   places before its first
  Places(at::TensorList maps, const Affines& affines, const TileSize& size, int64_t side, int64_t before)
      : tiles_(maps, size), maps_(first_places<const T>(maps)), depth_(maps[0].size(1)), side_(side), before_(before) {
    for (const std::optional<Affine>& affine : affines)
      if (affine) channels_.push_back(&affine->channels);
    TORCH_INTERNAL_ASSERT(channels_.empty() || channels_.size() == maps.size());
  }

  /// Those of a tile, and what is pending of them.
  struct Seen {
    std::array<const Factor*, kMostSides * kMostSides> places;
    std::optional<PendingPlaces> pending;
  };
  /// space    [side * side, depth], needed only where maps are of other numbers
  /// outside  limits of the places outside of the picture
  Seen of(int64_t tile, float* space, const Clamp& outside) const {
    Seen result;
    const size_t map = tiles_.map_of(tile);
    if (pending()) result.pending = pending_of(*channels_[map]);
    tiles_.for_places(tile, side_, before_, [&](size_t i, int64_t place) {
      if (place < 0) {
        result.places[i] = zeros_.data();
        if (result.pending) {
          result.pending->whole = false;
          result.pending->clamps[i] = outside;
        }
      } else if constexpr (std::is_same_v<T, Factor>) {
        result.places[i] = maps_[map] + place * depth_;
      } else {
        result.places[i] = floats_of(maps_[map] + place * depth_, depth_, space + static_cast<int64_t>(i) * depth_);
      }
    });
    return result;
  }
  /// Those of a tile that is not there: zeros.
  Seen none() const {
    Seen result;
    result.places.fill(zeros_.data());
    if (pending()) {
      result.pending = pending_of(*channels_[0]);
      result.pending->clamp = {0, 0};
      result.pending->clamps.fill(result.pending->clamp);
    }
    return result;
  }
  Scratch<> space() const { return scratch(std::is_same_v<T, Factor> ? 0 : side_ * side_ * depth_); }
  int64_t depth() const { return depth_; }
  const Tiles& tiles() const { return tiles_; }

 private:
  bool pending() const { return !channels_.empty(); }
  static PendingPlaces pending_of(const ChannelAffine& channels) {
    PendingPlaces result;
    result.mean = channels.mean;
    result.scale = channels.scale;
    result.shift = channels.shift;
    result.clamp = {channels.epilogue.low, channels.epilogue.high};
    result.whole = true;
    result.clamps.fill(result.clamp);
    return result;
  }

  Tiles tiles_;
  std::vector<const T*> maps_;
  std::vector<const ChannelAffine*> channels_;
  int64_t depth_, side_, before_;
  std::vector<Factor> zeros_ = std::vector<Factor>(static_cast<size_t>(depth_));
};

/// The places of some tiles, one tile after the other; where they are read in place, it is known which are read later.
/// kAhead  by how many tiles
template <class T, class Factor, size_t kAhead = 1>
class TileByTile {
 public:
  using Seen = typename Places<T, Factor>::Seen;

  /// outside  limits of the places outside of the picture
  TileByTile(const Places<T, Factor>& places, int64_t begin, int64_t end, const Clamp& outside = {0, 0})
      : places_(places), tile_(begin), end_(end), outside_(outside), space_(places.space()) {
    if constexpr (kInPlace)
      for (Seen& tile : ahead_) tile = following();
  }

  /// Of a tile, until kAhead more have been asked for; where it is not read in place, until one has.
  class Tile {
   public:
    Tile(Seen seen, const Seen* later) : seen_(std::move(seen)), later_(later) {}
    TilePlaces<Factor> places() const {
      return {seen_.places.data(), (later_ != nullptr ? *later_ : seen_).places.data()};
    }
    const PendingPlaces* pending() const { return seen_.pending ? &*seen_.pending : nullptr; }

   private:
    Seen seen_;
    const Seen* later_;
  };
  /// After the last one: zeros.
  Tile next() {
    if constexpr (kInPlace) {
      Seen& oldest = ahead_[next_];
      next_ = (next_ + 1) % kAhead;
      return Tile(std::exchange(oldest, following()), &oldest);
    } else {
      return Tile(following(), nullptr);
    }
  }

 private:
  static constexpr bool kInPlace = std::is_same_v<T, Factor>;

  Seen following() { return tile_ < end_ ? places_.of(tile_++, space_.get(), outside_) : places_.none(); }

  const Places<T, Factor>& places_;
  int64_t tile_, end_;
  Clamp outside_;
  Scratch<> space_;
  std::array<Seen, kInPlace ? kAhead : 0> ahead_;
  size_t next_ = 0;
};

}  // namespace osprey::kernels::cpu
