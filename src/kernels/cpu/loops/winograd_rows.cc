#include "kernels/cpu/loops/winograd_rows.h"

#include <type_traits>

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/lanes.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/loops/winograd_transforms.h"

namespace osprey::kernels::cpu {
namespace {

/// A transform of one dimension applied to both, of kFrom x kFrom numbers to kTo x kTo.
/// get  (number) -> what is transformed      put  (what it becomes, number)
template <class V, int kFrom, int kTo, class Get, class Transform, class Put>
OSPREY_INLINE void transform_both(const Get& get, const Transform& transform, const Put& put) {
  V columns[kFrom][kTo];
#pragma GCC unroll 6
  for (int j = 0; j < kFrom; ++j) {
    V column[kFrom];
#pragma GCC unroll 6
    for (int i = 0; i < kFrom; ++i) column[i] = get(i * kFrom + j);
    transform(column, columns[j]);
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTo; ++i) {
    V line[kFrom], made[kTo];
#pragma GCC unroll 6
    for (int j = 0; j < kFrom; ++j) line[j] = columns[j][i];
    transform(line, made);
#pragma GCC unroll 6
    for (int j = 0; j < kTo; ++j) put(made[j], i * kTo + j);
  }
}

/// Calls work(first channel) until all have been met, the last ones again rather than one by one.
template <int kLanes, class Work>
OSPREY_INLINE void for_channels(int64_t channels, const Work& work) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) work(c);
  if (c < channels) work(channels - kLanes);
}

/// Puts two transforms of the same kind, the first of which is made before, as pairs.
/// transform  (what is done with its numbers): transforms one of the two      to  of the first pair
template <class Pairs, int kNumbers, class Transform>
OSPREY_INLINE void put_pairs(const Transform& transform, float* to, int64_t step) {
  using V = typename Pairs::Floats;
  typename Pairs::Halves first[kNumbers];
  transform(
      0, [&](const V& number, int i) __attribute__((always_inline)) { first[i] = Pairs::halves(number); });
  transform(
      1, [&](const V& number, int i) __attribute__((always_inline)) {
        Singles<Pairs::kLanes>::put(Pairs::pairs(first[i], Pairs::halves(number)), to + i * step);
      });
}

/// The batch norm of some channels.
template <class Numbers>
struct Normalized {
  using Single = Singles<Numbers::kLanes>;
  using V = typename Single::Floats;

  OSPREY_INLINE Normalized(const PendingPlaces& pending, int64_t c)
      : mean(Single::get(pending.mean + c)),
        scale(Single::get(pending.scale + c)),
        shift(Single::get(pending.shift + c)) {}
  V mean, scale, shift;
};

template <class V>
OSPREY_INLINE V clamped(V number, const V& low, const V& high) {
  number = number < low ? low : number;
  return number > high ? high : number;
}

/// Limits in registers.
template <class Numbers>
class SameLimits {
 public:
  using V = typename Numbers::Floats;
  OSPREY_INLINE explicit SameLimits(const PendingPlaces& pending)
      : low_(V{} + pending.clamp.low), high_(V{} + pending.clamp.high) {}
  OSPREY_INLINE V low(int) const { return low_; }
  OSPREY_INLINE V high(int) const { return high_; }

 private:
  V low_, high_;
};

/// Those of each place.
template <class Numbers>
class LimitsOfPlaces {
 public:
  using V = typename Numbers::Floats;
  OSPREY_INLINE explicit LimitsOfPlaces(const PendingPlaces& pending) : clamps_(pending.clamps.data()) {}
  OSPREY_INLINE V low(int i) const { return V{} + clamps_[i].low; }
  OSPREY_INLINE V high(int i) const { return V{} + clamps_[i].high; }

 private:
  const Clamp* clamps_;
};

/// Numbers as they are.
template <class Numbers>
struct AsTheyAre {
  OSPREY_INLINE AsTheyAre(const PendingPlaces*, int64_t) {}
  OSPREY_INLINE typename Numbers::Floats at(const typename Numbers::Element* from, int) const {
    return Numbers::get(from);
  }
};

/// Normalised and clamped.
template <class Numbers, class Limits>
struct AsPending {
  using V = typename Numbers::Floats;
  OSPREY_INLINE AsPending(const PendingPlaces* pending, int64_t c) : of(*pending, c), limits(*pending) {}
  OSPREY_INLINE V at(const typename Numbers::Element* from, int i) const {
    return clamped(V((Numbers::get(from) - of.mean) * of.scale + of.shift), limits.low(i), limits.high(i));
  }
  Normalized<Numbers> of;
  Limits limits;
};

/// Calls `work` with a null pointer to what makes numbers of some channels of what tiles see.
/// whole  whether all places of these have the same limits
template <class Numbers, class Work>
OSPREY_INLINE void with_reading(bool pending, bool whole, const Work& work) {
  if (!pending) return work(static_cast<AsTheyAre<Numbers>*>(nullptr));
  if (whole) return work(static_cast<AsPending<Numbers, SameLimits<Numbers>>*>(nullptr));
  work(static_cast<AsPending<Numbers, LimitsOfPlaces<Numbers>>*>(nullptr));
}

/// Brings to the core what a tile needs next at some channels: of lines of `kSide` places those from `kFirst` on.
/// kCache  1 to 3: how near
template <int kSide, int kFirst, bool kWritten, int kCache, class Element>
OSPREY_INLINE void fetch_places(const Element* const* places, int64_t c) {
  constexpr int64_t kOfALine = 64 / sizeof(Element);
  if (c % kOfALine != 0) return;
  for (int i = 0; i < kSide; ++i)
    for (int j = kFirst; j < kSide; ++j) __builtin_prefetch(places[i * kSide + j] + c, kWritten ? 1 : 0, kCache);
}

template <class Tile, class Numbers, class Reading, class Put>
OSPREY_INLINE void seen_at(const TilePlaces<typename Numbers::Element>& seen, const PendingPlaces* pending, int64_t c,
                           const Put& put) {
  using V = typename Numbers::Floats;
  const Reading reading(pending, c);
  fetch_places<Tile::kSides, /*kFirst=*/2, /*kWritten=*/false, /*kCache=*/2>(seen.next, c);  // this one sees the others
  transform_both<V, Tile::kSides, Tile::kSides>(
      [&](int i) __attribute__((always_inline)) { return reading.at(seen.places[i] + c, i); },
      [](const V* from, V* made) __attribute__((always_inline)) { Tile::seen(from, made); }, put);
}

template <class Tile, class Numbers, class Reading>
OSPREY_INLINE void seen_of(const TilePlaces<typename Numbers::Element>& seen, const PendingPlaces* pending,
                           int64_t channels, typename Numbers::Element* to, int64_t panel_step, int64_t step) {
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        auto* const first = to + c / kPanelColumns * panel_step + c % kPanelColumns;
        seen_at<Tile, Numbers, Reading>(
            seen, pending, c, [&](const typename Numbers::Floats& number, int i) __attribute__((always_inline)) {
              Numbers::put(number, first + i * step);
            });
      });
}

template <class Tile, class Pairs, class Reading>
OSPREY_INLINE void seen_pairs_of(const TilePlaces<Bfloat16>& seen, const PendingPlaces* pending,
                                 const TilePlaces<Bfloat16>& other, const PendingPlaces* other_pending,
                                 int64_t channels, float* to, int64_t panel_step, int64_t step) {
  for_channels<Pairs::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        put_pairs<Pairs, Tile::kSides * Tile::kSides>(
            [&](int which, const auto& put) __attribute__((always_inline)) {
              seen_at<Tile, Pairs, Reading>(which == 0 ? seen : other, which == 0 ? pending : other_pending, c, put);
            },
            to + c / kPanelColumns * panel_step + c % kPanelColumns, step);
      });
}

template <class Tile, class Numbers, class Put>
OSPREY_INLINE void taps_of_row(const float* taps, int64_t tap_step, const Put& put) {
  using V = typename Numbers::Floats;
  transform_both<V, 3, Tile::kSides>(
      [&](int i) __attribute__((always_inline)) { return Numbers::get(taps + i * tap_step); },
      [](const V* from, V* made) __attribute__((always_inline)) { Tile::taps(from, made); }, put);
}

template <class Tile, class Numbers>
OSPREY_INLINE void taps_of(const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                           int64_t step) {
  for (int64_t row = 0; row < rows; ++row, taps += row_step, to += kPanelColumns)
    for (int64_t c = 0; c < kPanelColumns; c += Numbers::kLanes)
      taps_of_row<Tile, Numbers>(
          taps + c, tap_step, [&](const typename Numbers::Floats& number, int i) __attribute__((always_inline)) {
            Numbers::put(number, to + i * step + c);
          });
}

template <class Tile, class Pairs>
OSPREY_INLINE void tap_pairs_of(const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                                int64_t step) {
  using Numbers = Singles<Pairs::kLanes>;
  constexpr int kNumbers = Tile::kSides * Tile::kSides;
  for (int64_t row = 0; row < rows; row += 2, taps += 2 * row_step, to += kPanelColumns)
    for (int64_t c = 0; c < kPanelColumns; c += Numbers::kLanes)
      put_pairs<Pairs, kNumbers>(
          [&](int which, const auto& put) __attribute__((always_inline)) {
            if (row + which < rows) return taps_of_row<Tile, Numbers>(taps + which * row_step + c, tap_step, put);
            for (int i = 0; i < kNumbers; ++i) put(typename Numbers::Floats{}, i);
          },
          to + c, step);
}

/// What becomes of results of some channels at last: the number that is put at each place in turn; then `done`.
template <class Numbers>
struct Biased {
  using Single = Singles<Numbers::kLanes>;
  using V = typename Single::Floats;

  OSPREY_INLINE V at(const V& number, int) const { return number + bias; }
  OSPREY_INLINE void done() const {}
  V bias;
};

template <class Numbers>
struct Clamped {
  using V = typename Biased<Numbers>::V;

  OSPREY_INLINE V at(const V& number, int i) const { return clamped(biased.at(number, i), low, high); }
  OSPREY_INLINE void done() const {}
  Biased<Numbers> biased;
  V low, high;
};

/// Two sums over the places of a tile, of some channels. (Places take turns with two of each: a sum waits for the
/// last.)
template <class Numbers>
class TwoSums {
 public:
  using Single = Singles<Numbers::kLanes>;
  using V = typename Single::Floats;

  OSPREY_INLINE void add(int place, const V& one, const V& other) {
    one_[place % 2] += one;
    other_[place % 2] += other;
  }
  OSPREY_INLINE void join(float* one, float* other) const {
    Single::put(Single::get(one) + (one_[0] + one_[1]), one);
    Single::put(Single::get(other) + (other_[0] + other_[1]), other);
  }

 private:
  V one_[2] = {}, other_[2] = {};
};

/// Summed for the moments.
/// kWhole  all results are inside of the picture
template <class Numbers, bool kWhole>
class Summed {
 public:
  using Single = Singles<Numbers::kLanes>;
  using V = typename Single::Floats;

  OSPREY_INLINE Summed(const ResultSums& sums, int64_t c) : sums_(sums), c_(c), center_(Single::get(sums.center + c)) {}
  OSPREY_INLINE V at(const V& number, int i) {
    V result = number;
    if constexpr (!std::is_same_v<typename Numbers::Element, float>)
      result = Numbers::pairs(typename Numbers::Halves{}, Numbers::halves(number));
    if (i == 0 && sums_.first) {
      center_ = result;
      Single::put(center_, sums_.center + c_);
    }
    V difference = result - center_;
    if constexpr (!kWhole) difference = difference * sums_.inside[i];
    own_.add(i, difference, difference * difference);
    return result;
  }
  OSPREY_INLINE void done() const { own_.join(sums_.sum + c_, sums_.square + c_); }

 private:
  const ResultSums& sums_;
  int64_t c_;
  V center_;
  TwoSums<Numbers> own_;
};

/// Taken back through clamp and batch norm, and summed.
template <class Numbers, class Limits>
class TakenBack {
 public:
  using Single = Singles<Numbers::kLanes>;
  using V = typename Single::Floats;

  OSPREY_INLINE TakenBack(const typename Numbers::Element* const* x, const PendingPlaces& pending,
                          const GradientSums& sums, int64_t c)
      : x_(x), sums_(sums), c_(c), of_(pending, c), limits_(pending) {}
  OSPREY_INLINE V at(const V& number, int i) {
    const V centered = Numbers::get(x_[i] + c_) - of_.mean;
    const Few<Single> normalized(centered * of_.scale + of_.shift), low(limits_.low(i)), high(limits_.high(i)),
        gradient(number);
    Few<Single>
        taken;  // one by one, see lanes.h: of a choice between vectors and zeros the compiler makes single numbers
    each<Single>([&](int lane) __attribute__((always_inline)) {
      taken[lane] = Clamp{low[lane], high[lane]}.back(normalized[lane], gradient[lane]);
    });
    const V g = taken.all();
    own_.add(i, g, g * centered);
    return of_.scale * g;
  }
  OSPREY_INLINE void done() const { own_.join(sums_.sum + c_, sums_.product + c_); }

 private:
  const typename Numbers::Element* const* x_;
  const GradientSums& sums_;
  int64_t c_;
  Normalized<Numbers> of_;
  Limits limits_;
  TwoSums<Numbers> own_;
};

/// of_channels  (first channel) -> what becomes of their results, as above
template <class Tile, class Numbers, class OfChannels>
OSPREY_INLINE void results_of(const float* products, int64_t step, int64_t channels,
                              typename Numbers::Element* const* made, const typename Numbers::Element* const* next,
                              const OfChannels& of_channels) {
  using Single = Singles<Numbers::kLanes>;
  using V = typename Single::Floats;
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        fetch_places<Tile::kResults, /*kFirst=*/0, /*kWritten=*/true, /*kCache=*/3>(next, c);
        auto last = of_channels(c);
        transform_both<V, Tile::kSides, Tile::kResults>(
            [&](int i) __attribute__((always_inline)) { return Single::get(products + i * step + c); },
            [](const V* from, V* results) __attribute__((always_inline)) { Tile::results(from, results); },
            [&](const V& number, int i)
                __attribute__((always_inline)) { Numbers::put(last.at(number, i), made[i] + c); });
        last.done();
      });
}

template <class Tile, class Numbers, class Put>
OSPREY_INLINE void wanted_at(const TilePlaces<typename Numbers::Element>& wanted, int64_t c, const Put& put) {
  using V = typename Numbers::Floats;
  fetch_places<Tile::kResults, /*kFirst=*/0, /*kWritten=*/false, /*kCache=*/2>(wanted.next, c);
  transform_both<V, Tile::kResults, Tile::kSides>(
      [&](int i) __attribute__((always_inline)) { return Numbers::get(wanted.places[i] + c); },
      [](const V* from, V* made) __attribute__((always_inline)) { Tile::wanted(from, made); }, put);
}

template <class Tile, class Numbers>
OSPREY_INLINE void wanted_of(const TilePlaces<float>& wanted, int64_t channels, float* to, int64_t step) {
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        wanted_at<Tile, Numbers>(
            wanted, c, [&](const typename Numbers::Floats& number, int i) __attribute__((always_inline)) {
              Numbers::put(number, to + i * step + c);
            });
      });
}

template <class Tile, class Pairs>
OSPREY_INLINE void wanted_pairs_of(const TilePlaces<Bfloat16>& wanted, const TilePlaces<Bfloat16>& other,
                                   int64_t channels, float* to, int64_t step) {
  for_channels<Pairs::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        put_pairs<Pairs, Tile::kSides * Tile::kSides>(
            [&](int which, const auto& put)
                __attribute__((always_inline)) { wanted_at<Tile, Pairs>(which == 0 ? wanted : other, c, put); },
            to + c, step);
      });
}

template <class Tile, class Numbers>
OSPREY_INLINE void sums_of(const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                           int64_t row_step) {
  using V = typename Numbers::Floats;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < kPanelColumns; c += Numbers::kLanes) {
      const float* const of_row = sums + row * kPanelColumns + c;
      float* const first = taps + row * row_step + c;
      transform_both<V, Tile::kSides, 3>(
          [&](int i) __attribute__((always_inline)) { return Numbers::get(of_row + i * step); },
          [](const V* from, V* made) __attribute__((always_inline)) { Tile::sums(from, made); },
          [&](const V& number, int i) __attribute__((always_inline)) { Numbers::put(number, first + i * tap_step); });
    }
}

/// Calls `work` with the transforms of tiles of so many results in a line.
template <class Work>
OSPREY_INLINE void with_tile(int64_t results, const Work& work) {
  if (results == TwoResults::kResults) return work(TwoResults{});
  if (results == ThreeResults::kResults) return work(ThreeResults{});
  work(FourResults{});
}

template <class Numbers>
OSPREY_INLINE void seen_to_factors(int64_t results, const TilePlaces<typename Numbers::Element>& seen,
                                   const PendingPlaces* pending, int64_t channels, typename Numbers::Element* to,
                                   int64_t panel_step, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        with_reading<Numbers>(
            pending != nullptr,
            pending != nullptr && pending->whole, [&]<class Reading>(Reading*) __attribute__((always_inline)) {
              seen_of<Tile, Numbers, Reading>(seen, pending, channels, to, panel_step, step);
            });
      });
}

template <class Pairs>
OSPREY_INLINE void seen_to_pairs(int64_t results, const TilePlaces<Bfloat16>& seen, const PendingPlaces* pending,
                                 const TilePlaces<Bfloat16>& other, const PendingPlaces* other_pending,
                                 int64_t channels, float* to, int64_t panel_step, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        with_reading<Pairs>(
            pending != nullptr, pending != nullptr && pending->whole && other_pending->whole,
            [&]<class Reading>(Reading*) __attribute__((always_inline)) {
              seen_pairs_of<Tile, Pairs, Reading>(seen, pending, other, other_pending, channels, to, panel_step, step);
            });
      });
}

template <class Numbers>
OSPREY_INLINE void taps_to_factors(int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows,
                                   float* to, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        taps_of<Tile, Numbers>(taps, tap_step, row_step, rows, to, step);
      });
}

template <class Pairs>
OSPREY_INLINE void taps_to_pairs(int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows,
                                 float* to, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        tap_pairs_of<Tile, Pairs>(taps, tap_step, row_step, rows, to, step);
      });
}

template <class Numbers>
OSPREY_INLINE void products_to_results(int64_t results, const float* products, int64_t step, int64_t channels,
                                       const float* biases, const Clamp* clamp, typename Numbers::Element* const* made,
                                       const typename Numbers::Element* const* next) {
  using Biased = Biased<Numbers>;
  using V = typename Biased::V;
  const auto biased = [&](int64_t c) __attribute__((always_inline)) {
    return Biased{biases != nullptr ? Biased::Single::get(biases + c) : V{}};
  };
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        if (clamp == nullptr) return results_of<Tile, Numbers>(products, step, channels, made, next, biased);
        const V low = V{} + clamp->low, high = V{} + clamp->high;
        results_of<Tile, Numbers>(
            products, step, channels, made, next, [&](int64_t c) __attribute__((always_inline)) {
              return Clamped<Numbers>{biased(c), low, high};
            });
      });
}

template <class Numbers>
OSPREY_INLINE void products_to_summed_results(int64_t results, const float* products, int64_t step, int64_t channels,
                                              const ResultSums& sums, typename Numbers::Element* const* made,
                                              const typename Numbers::Element* const* next) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        if (sums.inside == nullptr)
          return results_of<Tile, Numbers>(
              products, step, channels, made,
              next, [&](int64_t c) __attribute__((always_inline)) { return Summed<Numbers, true>(sums, c); });
        results_of<Tile, Numbers>(
            products, step, channels, made,
            next, [&](int64_t c) __attribute__((always_inline)) { return Summed<Numbers, false>(sums, c); });
      });
}

template <class Numbers>
OSPREY_INLINE void products_taken_back(int64_t results, const float* products, int64_t step, int64_t channels,
                                       const TilePlaces<typename Numbers::Element>& x, const PendingPlaces& pending,
                                       const GradientSums& sums, typename Numbers::Element* const* made,
                                       const typename Numbers::Element* const* next) {
  using Single = Singles<Numbers::kLanes>;
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        const auto take = [&]<class Limits>(Limits*) __attribute__((always_inline)) {
          results_of<Tile, Numbers>(
              products, step, channels, made, next, [&](int64_t c) __attribute__((always_inline)) {
                fetch_places<Tile::kResults, /*kFirst=*/0, /*kWritten=*/false, /*kCache=*/3>(x.next, c);
                return TakenBack<Numbers, Limits>(x.places, pending, sums, c);
              });
        };
        pending.whole ? take(static_cast<SameLimits<Single>*>(nullptr))
                      : take(static_cast<LimitsOfPlaces<Single>*>(nullptr));
      });
}

template <class Numbers>
OSPREY_INLINE void wanted_to_factors(int64_t results, const TilePlaces<float>& wanted, int64_t channels, float* to,
                                     int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile)
                   __attribute__((always_inline)) { wanted_of<Tile, Numbers>(wanted, channels, to, step); });
}

template <class Pairs>
OSPREY_INLINE void wanted_to_pairs(int64_t results, const TilePlaces<Bfloat16>& wanted,
                                   const TilePlaces<Bfloat16>& other, int64_t channels, float* to, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile)
                   __attribute__((always_inline)) { wanted_pairs_of<Tile, Pairs>(wanted, other, channels, to, step); });
}

template <class Numbers>
OSPREY_INLINE void sums_to_taps(int64_t results, const float* sums, int64_t step, int64_t rows, float* taps,
                                int64_t tap_step, int64_t row_step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        sums_of<Tile, Numbers>(sums, step, rows, taps, tap_step, row_step);
      });
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_CONVOLVED(dispatch, T)                                                                      \
  dispatch(transform_seen, seen_to_factors,                                                                         \
           (int64_t results, const TilePlaces<T>& seen, const PendingPlaces* pending, int64_t channels, T* to,      \
            int64_t panel_step, int64_t step),                                                                      \
           results, seen, pending, channels, to, panel_step,                                                        \
           step) dispatch(transform_products, products_to_results,                                                  \
                          (int64_t results, const float* products, int64_t step, int64_t channels,                  \
                           const float* biases, const Clamp* clamp, T* const* made, const T* const* next),          \
                          results, products, step, channels, biases, clamp, made, next)                             \
      dispatch(transform_products, products_to_summed_results,                                                      \
               (int64_t results, const float* products, int64_t step, int64_t channels, const ResultSums& sums,     \
                T* const* made, const T* const* next),                                                              \
               results, products, step, channels, sums, made, next)                                                 \
          dispatch(transform_products_back, products_taken_back,                                                    \
                   (int64_t results, const float* products, int64_t step, int64_t channels, const TilePlaces<T>& x, \
                    const PendingPlaces& pending, const GradientSums& sums, T* const* made, const T* const* next),  \
                   results, products, step, channels, x, pending, sums, made, next)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_CONVOLVED(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_CONVOLVED(OSPREY_DISPATCH_PAIRS, Bfloat16)

#define OSPREY_DISPATCH_WEIGHTS(dispatch, name, inner)                                                                 \
  dispatch(                                                                                                            \
      name, inner,                                                                                                     \
      (int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to, int64_t step), \
      results, taps, tap_step, row_step, rows, to, step)

OSPREY_DISPATCH_WEIGHTS(OSPREY_DISPATCH_SINGLES, transform_weights, taps_to_factors)
OSPREY_DISPATCH_WEIGHTS(OSPREY_DISPATCH_PAIRS, transform_weights_to_pairs, taps_to_pairs)

OSPREY_DISPATCH_PAIRS(transform_seen_to_pairs, seen_to_pairs,
                      (int64_t results, const TilePlaces<Bfloat16>& seen, const PendingPlaces* pending,
                       const TilePlaces<Bfloat16>& other, const PendingPlaces* other_pending, int64_t channels,
                       float* to, int64_t panel_step, int64_t step),
                      results, seen, pending, other, other_pending, channels, to, panel_step, step)

OSPREY_DISPATCH_SINGLES(transform_wanted, wanted_to_factors,
                        (int64_t results, const TilePlaces<float>& wanted, int64_t channels, float* to, int64_t step),
                        results, wanted, channels, to, step)

OSPREY_DISPATCH_PAIRS(transform_wanted_to_pairs, wanted_to_pairs,
                      (int64_t results, const TilePlaces<Bfloat16>& wanted, const TilePlaces<Bfloat16>& other,
                       int64_t channels, float* to, int64_t step),
                      results, wanted, other, channels, to, step)

OSPREY_DISPATCH_SINGLES(transform_sums, sums_to_taps,
                        (int64_t results, const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                         int64_t row_step),
                        results, sums, step, rows, taps, tap_step, row_step)

}  // namespace osprey::kernels::cpu
