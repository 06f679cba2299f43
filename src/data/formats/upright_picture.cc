#include "upright_picture.h"

#include "data/whole_file.h"
#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"

namespace osprey::data {

bool read_upright(AnnotatedImage& image) {
  image.encoded = bytes_of_file(image.path).value_or("");
  try {
    const ImageInfo info = image_info(image.encoded);
    const bool lies = info.orientation >= 5;  // is stored on its side
    image.height = lies ? info.width : info.height;
    image.width = lies ? info.height : info.width;
    return true;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace osprey::data
