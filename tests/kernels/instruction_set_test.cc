#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "osprey/base/cpu.h"

namespace osprey {
namespace {

/// What the system says that the CPU has; empty where it does not say so.
std::set<std::string> flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

/// Whether the system says that this is one of the CPUs whose adders are beside their multipliers.
bool found_adders() {
  std::ifstream file("/proc/cpuinfo");
  bool amd = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("vendor_id")) amd = line.ends_with("AuthenticAMD");
    if (line.starts_with("cpu family")) return amd && (line.ends_with(": 25") || line.ends_with(": 26"));
  }
  return false;
}

/// Run with each value of OSPREY_MAX_CPU_ISA, see tests/CMakeLists.txt.
TEST(InstructionSet, IsTheBestThatTheMachineHasAndTheEnvironmentAllows) {
  const std::set<std::string> found = flags();
  if (found.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  const auto has = [&](std::initializer_list<const char*> all) {
    return std::ranges::all_of(all, [&](const char* flag) { return found.contains(flag); });
  };
  const bool avx512 = has({"avx512f", "avx512bw", "avx512vl", "avx512dq"});
  const bool pairs = avx512 && has({"avx512_bf16"});
  const InstructionSet best = pairs && has({"amx_tile", "amx_bf16"}) ? InstructionSet::kAmxBf16
                              : pairs                                ? InstructionSet::kAvx512Bf16
                              : avx512                               ? InstructionSet::kAvx512
                              : has({"avx2", "fma"})                 ? InstructionSet::kAvx2
                                                                     : InstructionSet::kAny;
  const char* const value = std::getenv("OSPREY_MAX_CPU_ISA");
  const std::string limit = value == nullptr ? "AMX_BF16" : value;
  const InstructionSet most = limit == "ANY"           ? InstructionSet::kAny
                              : limit == "AVX2"        ? InstructionSet::kAvx2
                              : limit == "AVX512"      ? InstructionSet::kAvx512
                              : limit == "AVX512_BF16" ? InstructionSet::kAvx512Bf16
                                                       : InstructionSet::kAmxBf16;
  EXPECT_EQ(instruction_set(), std::min(best, most));
  EXPECT_EQ(has_bfloat16_arithmetic(), std::min(best, most) >= InstructionSet::kAvx512Bf16);
  EXPECT_EQ(has_bfloat16_tiles(), std::min(best, most) == InstructionSet::kAmxBf16);
  EXPECT_EQ(adds_beside_products(), std::min(best, most) >= InstructionSet::kAvx512 && found_adders());
  EXPECT_TRUE(!computes_with_512_bits() || std::min(best, most) >= InstructionSet::kAvx512);
}

}  // namespace
}  // namespace osprey
