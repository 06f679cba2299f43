// Lists what an exported model finds on one picture: detect_picture EXPORTED_FOLDER PICTURE
#include <osprey/base/error.h>
#include <osprey/data/image_codec.h>
#include <osprey/export/detector.h>

#include <cstdio>
#include <fstream>
#include <iterator>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: detect_picture EXPORTED_FOLDER PICTURE\n");
    return 2;
  }
  const osprey::Detector detector(argv[1]);
  std::ifstream file(argv[2], std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "detect_picture: %s: cannot be opened\n", argv[2]);
    return 3;
  }
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const osprey::Detection& found : detector.detect(osprey::data::decode_image(bytes), /*min_score=*/0.5))
    std::printf("%-12s %.2f  y %.3f..%.3f  x %.3f..%.3f\n", found.class_name.c_str(), found.score, found.box.ymin,
                found.box.ymax, found.box.xmin, found.box.xmax);
} catch (const osprey::Error& error) {
  std::fprintf(stderr, "detect_picture: %s\n", error.what());
  return static_cast<int>(error.exit_code());
}
