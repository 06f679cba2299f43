#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "osprey/data/batch_source.h"
#include "osprey/eval/gallery.h"

namespace osprey::eval {

/// The colour of boxes with this verdict, RGB.
std::array<uint8_t, 3> verdict_color(Verdict verdict);

/// What a box says: "cat", "false cat", "missed cat", "cat, is dog" (a detection), "cat, found as dog" (an object).
std::string verdict_text(const JudgedBox& box, const std::vector<Category>& categories);

/// Reads the pictures of a gallery again and draws on them.
/// source      gives all batches of the evaluation
/// throws      as `next` of the source
void draw_gallery(Gallery& gallery, data::BatchSource& source, const std::vector<Category>& categories);

}  // namespace osprey::eval
