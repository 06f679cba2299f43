#pragma once
#include <string>

#include "osprey/config/node.h"
#include "osprey/core/example.h"
#include "osprey/data/example_ops.h"
#include "osprey/data/random.h"

namespace osprey::data {

/// How random_crop_image and its relatives choose and use a window. The names are those of the config.
struct CropOptions {
  float min_object_covered = 1;
  float min_aspect_ratio = 0.75f, max_aspect_ratio = 1.33f;  ///< width / height
  float min_area = 0.1f, max_area = 1;                       ///< shares of the image
  float overlap_thresh = 0.3f;
  bool clip_boxes = true;
  float random_coef = 0;  ///< probability of doing nothing
};

/// Throws the ConfigError of an option out of range.
void check(const CropOptions& options, const config::Node& node);

/// The fields that all messages with crop options have, under the same names.
template <class M>
CropOptions crop_options(const config::ConfigNode<M>& cfg) {
  CropOptions options;
  options.min_object_covered = cfg->min_object_covered();
  options.min_area = cfg->min_area();
  options.max_area = cfg->max_area();
  options.overlap_thresh = cfg->overlap_thresh();
  options.clip_boxes = cfg->clip_boxes();
  options.random_coef = cfg->random_coef();
  return options;
}

/// A window with an aspect ratio and an area in their ranges that covers at least min_object_covered of one box; the
/// whole image where a hundred tries find none. Without boxes the image itself is the box.
///
/// source  the sampling of TensorFlow's sample_distorted_bounding_box
PixelWindow sample_window(const Example& example, const CropOptions& options, RandomDraws& draws);

/// Crops to such a window, but with probability random_coef does nothing.
void random_crop(Example& example, const CropOptions& options, RandomDraws& draws);

/// Crops to the largest window with this aspect ratio, at a random place.
void random_crop_to_aspect_ratio(Example& example, float aspect_ratio, float overlap_thresh, bool clip,
                                 RandomDraws& draws);

}  // namespace osprey::data
