#include "osprey/kernels/named_device.h"

#include <gmock/gmock.h>

#include "osprey/base/error.h"

namespace osprey::kernels {
namespace {
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(NamedDevice, UnknownNamesAndMissingGpusAreRefused) {
  EXPECT_TRUE(named_device("cpu").is_cpu());
  for (const char* name : {"gpu", "cudax", "cpu:x", ""})
    EXPECT_THAT([&] { named_device(name); }, ThrowsMessage<ConfigError>(HasSubstr("must be cpu, cuda or cuda:<n>")));
  EXPECT_THROW(named_device("cuda:99"), ConfigError);
}

}  // namespace
}  // namespace osprey::kernels
