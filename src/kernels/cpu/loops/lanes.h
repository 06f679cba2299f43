#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/loops/factors.h"

/// Numbers of a map as floats, as many at a time as a register holds. Each kind of them says how it gets them from
/// memory and puts them there: Singles and the pairs of loops/factors.h, and those below. Arithmetic with them is
/// written for one after the other, in loops of so many, which the compiler makes instructions for a register of: it
/// leaves numbers there between getting and putting, but would take two registers of half the size to widen numbers of
/// half the bits.
namespace osprey::kernels::cpu {

/// IEEE 754 binary16, as load and store in arithmetic/number.h.
template <int kFloats>
struct EmulatedHalves {
  static constexpr int kLanes = kFloats;
  using Element = Float16;
  using Floats = typename Vector<kLanes>::Floats;

  static OSPREY_INLINE Floats get(const Float16* from) {
    float numbers[kLanes];
    for (int i = 0; i < kLanes; ++i) numbers[i] = load(from + i);
    return Singles<kLanes>::get(numbers);
  }
  static OSPREY_INLINE void put(const Floats& numbers, Float16* to) {
    for (int i = 0; i < kLanes; ++i) store(to + i, numbers[i]);
  }
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/// By the instructions for them, F16C and those of AVX-512. (As assembly, for the reason of PairInstructions.)
template <int kFloats>
struct HalfInstructions {
  static constexpr int kLanes = kFloats;
  using Element = Float16;
  using Floats = typename Vector<kLanes>::Floats;
  using Halves = typename Vector<kLanes>::Halves;

  static OSPREY_INLINE Floats get(const Float16* from) {
    Floats result;
    asm("vcvtph2ps %1, %0" : "=v"(result) : "m"(*reinterpret_cast<const Halves*>(from)));
    return result;
  }
  static OSPREY_INLINE void put(const Floats& numbers, Float16* to) {
    Halves result;
    asm("vcvtps2ph $0, %1, %0" : "=v"(result) : "v"(numbers));  // 0: to nearest, ties to even
    *reinterpret_cast<Halves*>(to) = result;
  }
};
#else
template <int kFloats>
using HalfInstructions = EmulatedHalves<kFloats>;
#endif

/// One number by itself.
template <class T>
struct OneNumber {
  static constexpr int kLanes = 1;
  using Element = T;
  using Floats = float;
  static OSPREY_INLINE float get(const T* from) { return load(from); }
  static OSPREY_INLINE void put(float number, T* to) { store(to, number); }
};

/// Floats, as many as numbers of another kind come at a time.
template <class Numbers>
using FloatsLike = std::conditional_t<Numbers::kLanes == 1, OneNumber<float>, Singles<Numbers::kLanes>>;

/// As many floats, one by one.
template <class Numbers>
class Few {
 public:
  Few() = default;
  OSPREY_INLINE explicit Few(const typename Numbers::Floats& numbers) {
    std::memcpy(numbers_, &numbers, sizeof numbers_);
  }
  OSPREY_INLINE explicit Few(const typename Numbers::Element* from) : Few(Numbers::get(from)) {}
  OSPREY_INLINE typename Numbers::Floats all() const {
    typename Numbers::Floats numbers;
    std::memcpy(&numbers, numbers_, sizeof numbers_);
    return numbers;
  }
  OSPREY_INLINE void put(typename Numbers::Element* to) const { Numbers::put(all(), to); }
  OSPREY_INLINE float& operator[](int i) { return numbers_[i]; }
  OSPREY_INLINE float operator[](int i) const { return numbers_[i]; }

 private:
  float numbers_[Numbers::kLanes];
};

/// Calls body(i) for each of some numbers. (Not unrolled: the compiler takes a register for what is still a loop.)
template <class Numbers, class Body>
OSPREY_INLINE void each(const Body& body) {
#pragma GCC unroll 1
#pragma GCC ivdep
  for (int i = 0; i < Numbers::kLanes; ++i) body(i);
}

/// The same kind of numbers, of as many as another one has at a time.
template <class Numbers, int kLanes>
struct AsMany;
template <template <int> class Numbers, int kOwn, int kLanes>
struct AsMany<Numbers<kOwn>, kLanes> {
  using type = Numbers<kLanes>;
};

/// Calls `work.template operator()<Numbers>(first)` for as many channels at a time as a register holds, then for half
/// as many, then one by one.
template <class Numbers, class Work>
OSPREY_INLINE void for_lanes(int64_t channels, const Work& work) {
  int64_t c = 0;
  for (; c + Numbers::kLanes <= channels; c += Numbers::kLanes) work.template operator()<Numbers>(c);
  if constexpr (Numbers::kLanes > 8) {
    using Fewer = typename AsMany<Numbers, 8>::type;
    if (c + Fewer::kLanes <= channels) {
      work.template operator()<Fewer>(c);
      c += Fewer::kLanes;
    }
  }
  for (; c < channels; ++c) work.template operator()<OneNumber<typename Numbers::Element>>(c);
}

/// Defines a function by `inner<HalfInstructions<as many as a register holds>>`, elsewhere by `inner<EmulatedHalves>`.
#define OSPREY_DISPATCH_HALVES(name, inner, parameters, ...)                                                    \
  OSPREY_DISPATCH_EACH(name, inner<HalfInstructions<16>>, inner<HalfInstructions<8>>, inner<EmulatedHalves<8>>, \
                       parameters, __VA_ARGS__)

}  // namespace osprey::kernels::cpu
