#pragma once
#include <array>
#include <cstdint>

namespace osprey::data {

/// Where an augmentation gets its random numbers from. Tests put their own behind it.
class RandomDraws {
 public:
  virtual ~RandomDraws() = default;
  /// A number in [low, high).
  virtual float uniform(float low, float high) = 0;
  /// An integer in [low, high); low where high <= low + 1.
  virtual int64_t integer(int64_t low, int64_t high) = 0;
};

/// What a stream of random numbers belongs to. Equal keys give equal streams, different keys independent ones, so that
/// neither the number of threads nor the order of the work changes a draw.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t example = 0;    ///< index of the record in the data set
  uint64_t operation = 0;  ///< index of the augmentation in the config; other users take numbers from 1 << 32 up
};

/// Four random words for a counter and a key: Philox-4x32 with ten rounds.
/// source   Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The stream of one key.
class KeyedDraws final : public RandomDraws {
 public:
  explicit KeyedDraws(const RandomKey& key);
  float uniform(float low, float high) override;
  int64_t integer(int64_t low, int64_t high) override;
  uint32_t word();  ///< the next 32 random bits

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_, words_{};
  int used_ = 4;
};

/// Position `index` of the permutation of [0, size) that belongs to (seed, epoch), without storing the permutation.
/// index    in [0, size)
/// source   a balanced Feistel network over the next power of four, walked until it lands inside (Black and Rogaway,
///          "Ciphers with Arbitrary Finite Domains", CT-RSA 2002)
int64_t permuted(int64_t index, int64_t size, uint64_t seed, uint64_t epoch);

}  // namespace osprey::data
