#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/arithmetic/number.h"
#include "kernels/cpu/loops/dispatch.h"

/// What products are made of: floats, or pairs of bfloat16 numbers, each in the place of a float. An instruction of
/// AVX512-BF16 adds both products of two pairs to a float, so such products take half the time; any other machine can
/// do the same, more slowly than with floats.
namespace osprey::kernels::cpu {

/// As many numbers as a register has room for as floats.
template <int kLanes>
struct Vector {
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
  typedef uint32_t Bits __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
  typedef uint16_t Halves __attribute__((vector_size(kLanes * sizeof(uint16_t)), aligned(2), may_alias));
};

template <int kFloats>
struct Singles {
  static constexpr int kLanes = kFloats;
  using Element = float;
  using Floats = typename Vector<kLanes>::Floats;

  static OSPREY_INLINE Floats get(const float* from) { return *reinterpret_cast<const Floats*>(from); }
  static OSPREY_INLINE void put(const Floats& numbers, float* to) { *reinterpret_cast<Floats*>(to) = numbers; }

  /// What is multiplied with all lanes.
  static OSPREY_INLINE float all(float number) { return number; }
  /// sum += a * b
  static OSPREY_INLINE void add(Floats& sum, float a, const Floats& b) { sum += a * b; }
};

/// Pairs, but for how they are multiplied and made.
template <int kFloats>
struct PairLanes {
  static constexpr int kLanes = kFloats;
  using Element = Bfloat16;
  using Floats = typename Vector<kLanes>::Floats;
  using Bits = typename Vector<kLanes>::Bits;
  using Halves = typename Vector<kLanes>::Halves;

  static OSPREY_INLINE Halves halves(const Bfloat16* from) { return *reinterpret_cast<const Halves*>(from); }
  static OSPREY_INLINE Floats get(const Bfloat16* from) {
    return std::bit_cast<Floats>(__builtin_convertvector(halves(from), Bits) << 16);
  }
  /// Of what is in the same lanes.
  static OSPREY_INLINE Floats pairs(const Halves& first, const Halves& second) {
    return std::bit_cast<Floats>(__builtin_convertvector(first, Bits) | __builtin_convertvector(second, Bits) << 16);
  }
};

/// By the operations that any machine has.
template <int kFloats>
struct EmulatedPairs : PairLanes<kFloats> {
  using typename PairLanes<kFloats>::Floats, typename PairLanes<kFloats>::Bits, typename PairLanes<kFloats>::Halves;
  static OSPREY_INLINE Floats all(const float& pair) {
    return std::bit_cast<Floats>(Bits{} + std::bit_cast<uint32_t>(pair));
  }
  static OSPREY_INLINE void add(Floats& sum, const Floats& a, const Floats& b) {
    sum += first(a) * first(b);
    sum += second(a) * second(b);
  }
  using PairLanes<kFloats>::halves;
  /// Rounded to nearest, ties to even.
  static OSPREY_INLINE Halves halves(const Floats& numbers) {
    const Bits bits = std::bit_cast<Bits>(numbers), none = std::bit_cast<Bits>(numbers != numbers);
    const Bits rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return __builtin_convertvector((none & 0x7fc0) | (~none & rounded), Halves);
  }
  static OSPREY_INLINE void put(const Floats& numbers, Bfloat16* to) {
    *reinterpret_cast<Halves*>(to) = halves(numbers);
  }
  /// Numbers one after the other.
  static OSPREY_INLINE void put(const Floats& first, const Floats& second, Bfloat16* to) {
    put(first, to);
    put(second, to + kFloats);
  }

 private:
  static OSPREY_INLINE Floats first(const Floats& pairs) {
    return std::bit_cast<Floats>(std::bit_cast<Bits>(pairs) << 16);
  }
  static OSPREY_INLINE Floats second(const Floats& pairs) {
    return std::bit_cast<Floats>(std::bit_cast<Bits>(pairs) & 0xffff0000);
  }
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/// By the instructions for them, which take subnormal numbers for zero. (As assembly: functions that are inlined are
/// not themselves compiled for AVX512-BF16.)
template <int kFloats>
struct PairInstructions : PairLanes<kFloats> {
  using typename PairLanes<kFloats>::Floats, typename PairLanes<kFloats>::Bits, typename PairLanes<kFloats>::Halves;
  static OSPREY_INLINE Bits widened(const Halves& halves) {  // the compiler would take two registers of half the size
    Bits result;
    asm("vpmovzxwd %1, %0" : "=v"(result) : "vm"(halves));
    return result;
  }
  static OSPREY_INLINE Floats get(const Bfloat16* from) {
    return std::bit_cast<Floats>(widened(*reinterpret_cast<const Halves*>(from)) << 16);
  }
  static OSPREY_INLINE Floats pairs(const Halves& first, const Halves& second) {
    return std::bit_cast<Floats>(widened(first) | widened(second) << 16);
  }
  static OSPREY_INLINE Floats all(const float& pair) {
    Floats result;
    asm("vbroadcastss %1, %0" : "=v"(result) : "m"(pair));
    return result;
  }
  static OSPREY_INLINE void add(Floats& sum, const Floats& a, const Floats& b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
  using PairLanes<kFloats>::halves;
  static OSPREY_INLINE Halves halves(const Floats& numbers) {
    Halves result;
    asm("vcvtneps2bf16 %1, %0" : "=v"(result) : "v"(numbers));
    return result;
  }
  static OSPREY_INLINE void put(const Floats& numbers, Bfloat16* to) {
    *reinterpret_cast<Halves*>(to) = halves(numbers);
  }
  /// Numbers one after the other, rounded by one instruction.
  static OSPREY_INLINE void put(const Floats& first, const Floats& second, Bfloat16* to) {
    Floats result;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(result) : "v"(first), "v"(second));
    std::memcpy(to, &result, sizeof(result));
  }
};
#endif

/// Defines a function by `inner<Singles<as many as a register holds>>`.
#define OSPREY_DISPATCH_SINGLES(name, inner, parameters, ...) \
  OSPREY_DISPATCH_EACH(name, inner<Singles<16>>, inner<Singles<8>>, inner<Singles<8>>, parameters, __VA_ARGS__)

/// Defines a function by `inner<PairInstructions<16>>`, elsewhere by `inner<EmulatedPairs<as many as a register
/// holds>>`.
#define OSPREY_DISPATCH_PAIRS(name, inner, parameters, ...)                                                      \
  OSPREY_DISPATCH_BFLOAT16(name, inner<PairInstructions<16>>, inner<EmulatedPairs<16>>, inner<EmulatedPairs<8>>, \
                           inner<EmulatedPairs<8>>, parameters, __VA_ARGS__)

}  // namespace osprey::kernels::cpu
