#include "osprey/data/random.h"

#include <utility>

namespace osprey::data {
namespace {
struct WideProduct {
  uint32_t high, low;
};

WideProduct multiply(uint32_t a, uint32_t b) {
  const uint64_t product = uint64_t{a} * b;
  return {static_cast<uint32_t>(product >> 32), static_cast<uint32_t>(product)};
}

// A 64-bit finaliser (Steele et al., "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014): folds the parts of
// a key that do not fit the counter.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const WideProduct first = multiply(0xD2511F53u, counter[0]), second = multiply(0xCD9E8D57u, counter[2]);
    counter = {second.high ^ counter[1] ^ key[0], second.low, first.high ^ counter[3] ^ key[1], first.low};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

KeyedDraws::KeyedDraws(const RandomKey& key) {
  const uint64_t folded = mixed(key.seed ^ mixed(key.epoch ^ mixed(key.operation)));
  key_ = {static_cast<uint32_t>(folded), static_cast<uint32_t>(folded >> 32)};
  counter_ = {0, 0, static_cast<uint32_t>(key.example), static_cast<uint32_t>(key.example >> 32)};
}

uint32_t KeyedDraws::word() {
  if (used_ == 4) {
    words_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return words_[used_++];
}

float KeyedDraws::uniform(float low, float high) {
  const float unit = static_cast<float>(word() >> 8) * 0x1p-24f;  // every multiple of 2^-24 in [0, 1)
  const float value = low + unit * (high - low);
  return value < high || high <= low ? value : low;  // rounding must not reach the open end
}

int64_t KeyedDraws::integer(int64_t low, int64_t high) {
  if (high - low <= 1) return low;
  const uint64_t range = static_cast<uint64_t>(high - low);
  const uint64_t bits = (uint64_t{word()} << 32) | word();
  return low + static_cast<int64_t>((static_cast<unsigned __int128>(bits) * range) >> 64);
}

int64_t permuted(int64_t index, int64_t size, uint64_t seed, uint64_t epoch) {
  if (size <= 1) return 0;
  int half_bits = 1;  // the domain is [0, 4^half_bits)
  while (half_bits < 31 && (uint64_t{1} << (2 * half_bits)) < static_cast<uint64_t>(size)) ++half_bits;
  const uint32_t mask = (uint32_t{1} << half_bits) - 1;
  const uint64_t folded = mixed(seed ^ mixed(epoch ^ 0x7065726D75746564u));
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(folded), static_cast<uint32_t>(folded >> 32)};

  uint64_t value = static_cast<uint64_t>(index);
  do {
    uint32_t left = static_cast<uint32_t>(value >> half_bits), right = static_cast<uint32_t>(value) & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      left ^= philox({right, round, 0, 0}, key)[0] & mask;
      std::swap(left, right);
    }
    value = (uint64_t{left} << half_bits) | right;
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

}  // namespace osprey::data
