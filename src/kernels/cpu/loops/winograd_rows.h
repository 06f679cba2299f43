#pragma once
#include <array>
#include <cstdint>

#include "kernels/arithmetic/curve.h"
#include "kernels/arithmetic/number.h"

/// The transforms of F(2 x 2, 3 x 3), F(3 x 3, 3 x 3) and F(4 x 4, 3 x 3), many channels at a time, compiled for
/// several instruction sets of which the best that the machine has is taken: a tile of 2 x 2 results is made of 16
/// products, instead of 36, of numbers made of the 4 x 4 that it sees and of the 3 x 3 weights, one of 3 x 3 of 25
/// instead of 81, one of 4 x 4 of 36 instead of 144. The gradient of the weights is made of as many.
///
/// results  2, 3 or 4: how many a tile has in a line; it sees two more
/// source   Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4
namespace osprey::kernels::cpu {

constexpr int64_t kMostResults = 4, kMostSides = kMostResults + 2;
constexpr int64_t kTaps = 9;
constexpr int64_t kWinogradChannels = 16;  ///< at least

/// Places of a tile, row by row, [channels] each.
template <class T>
struct TilePlaces {
  const T* const* places;
  const T* const* next;  ///< those needed next, which are fetched meanwhile
};

/// What is pending of some places of a tile: (x - mean) * scale + shift, clamped.
struct PendingPlaces {
  const float *mean, *scale, *shift;                  ///< [channels]
  std::array<Clamp, kMostSides * kMostSides> clamps;  ///< of each place
  Clamp clamp;
  bool whole;  ///< that is the one of all places
};

/// The numbers to multiply of what a tile sees.
/// pending   of these places, or null; limits of 0 make zeros of places outside of the picture
/// channels  at least kWinogradChannels
/// to        [channels / kPanelColumns] of kPanelColumns, `panel_step` numbers apart; and so on, `step` numbers apart
void transform_seen(int64_t results, const TilePlaces<float>& seen, const PendingPlaces* pending, int64_t channels,
                    float* to, int64_t panel_step, int64_t step);
void transform_seen(int64_t results, const TilePlaces<Bfloat16>& seen, const PendingPlaces* pending, int64_t channels,
                    Bfloat16* to, int64_t panel_step, int64_t step);
/// Those of two tiles in pairs, of which something is pending of both or of none.
void transform_seen_to_pairs(int64_t results, const TilePlaces<Bfloat16>& seen, const PendingPlaces* pending,
                             const TilePlaces<Bfloat16>& other, const PendingPlaces* other_pending, int64_t channels,
                             float* to, int64_t panel_step, int64_t step);

/// The numbers to multiply of weights, for kPanelColumns results.
/// taps  of [rows, kPanelColumns]: `row_step` floats from row to row and `tap_step` from one of the 9 to the next
/// to    [rows, kPanelColumns], and so on, `step` floats apart
void transform_weights(int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                       int64_t step);
/// Each row in a pair with the next, the last of an odd number with zeros: half as many.
void transform_weights_to_pairs(int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows,
                                float* to, int64_t step);

/// The results of a tile.
/// products  [channels], and so on, `step` floats apart      channels  at least kWinogradChannels
/// biases    [channels], or null: zeros
/// clamp     or null: results stay as they are
/// made      the places, row by row, [channels] each      next  those made next, which are fetched meanwhile
void transform_products(int64_t results, const float* products, int64_t step, int64_t channels, const float* biases,
                        const Clamp* clamp, float* const* made, const float* const* next);
void transform_products(int64_t results, const float* products, int64_t step, int64_t channels, const float* biases,
                        const Clamp* clamp, Bfloat16* const* made, const Bfloat16* const* next);

/// Sums over the results of tiles, of those inside of the picture.
struct ResultSums {
  float* center;        ///< [channels]: what is summed are differences from it
  float *sum, *square;  ///< [channels], to which the differences and their squares are added
  const float* inside;  ///< 1 for each place, 0 for one beyond the picture; null: all are inside
  bool first;           ///< tile, whose first result becomes the center
};
/// The same without biases and clamp, and sums of the results as they have been rounded.
/// channels  a multiple of kWinogradChannels
void transform_products(int64_t results, const float* products, int64_t step, int64_t channels, const ResultSums& sums,
                        float* const* made, const float* const* next);
void transform_products(int64_t results, const float* products, int64_t step, int64_t channels, const ResultSums& sums,
                        Bfloat16* const* made, const Bfloat16* const* next);

/// Sums over what is taken back.
struct GradientSums {
  float *sum, *product;  ///< [channels], to which g and g * (x - mean) are added
};
/// The same as gradients of what was pending: with g such a result where nothing has been clamped, else 0, scale * g.
/// pending  of these places; those beyond the picture have a low limit above the high one, which nothing is within
void transform_products_back(int64_t results, const float* products, int64_t step, int64_t channels,
                             const TilePlaces<float>& x, const PendingPlaces& pending, const GradientSums& sums,
                             float* const* made, const float* const* next);
void transform_products_back(int64_t results, const float* products, int64_t step, int64_t channels,
                             const TilePlaces<Bfloat16>& x, const PendingPlaces& pending, const GradientSums& sums,
                             Bfloat16* const* made, const Bfloat16* const* next);

/// The numbers to multiply of the gradient of a tile's results.
/// channels  at least kWinogradChannels
/// to        [channels], and so on, `step` floats apart
void transform_wanted(int64_t results, const TilePlaces<float>& wanted, int64_t channels, float* to, int64_t step);
/// Those of two tiles in pairs.
void transform_wanted_to_pairs(int64_t results, const TilePlaces<Bfloat16>& wanted, const TilePlaces<Bfloat16>& other,
                               int64_t channels, float* to, int64_t step);

/// The gradient of weights, of sums over tiles of the products of what the two functions for tiles have made.
/// sums  [rows, kPanelColumns], and so on, `step` floats apart
/// taps  of [rows, kPanelColumns]: `row_step` floats from row to row and `tap_step` from one of the 9 to the next
void transform_sums(int64_t results, const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                    int64_t row_step);

}  // namespace osprey::kernels::cpu
