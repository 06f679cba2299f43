#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {
// As it is.
class Identity final : public ImageResizer {
 public:
  Identity() : ImageResizer({}, false) {}
  ImageSize content_size(ImageSize in) const override { return in; }
};

std::unique_ptr<ImageResizer> make_identity(const config::ConfigNode<proto::IdentityResizer>&) {
  return std::make_unique<Identity>();
}
OSPREY_REGISTER(ImageResizer, &make_identity);
}  // namespace
}  // namespace osprey::data
