#include "osprey/base/nearest.h"

#include <gtest/gtest.h>

namespace osprey {
namespace {

TEST(Nearest, FindsTheCandidateWithTheFewestEdits) {
  EXPECT_EQ(nearest("bacth_size", {"num_steps", "batch_size"}), "batch_size");
}
TEST(Nearest, IsEmptyWhereNothingIsClose) { EXPECT_EQ(nearest("optimizer", {"num_steps", "batch_size"}), ""); }
TEST(Nearest, TiesGoToTheFirst) { EXPECT_EQ(nearest("ab", {"ac", "ad"}), "ac"); }
TEST(Nearest, OfNothingIsEmpty) { EXPECT_EQ(nearest("ab", {}), ""); }

}  // namespace
}  // namespace osprey
