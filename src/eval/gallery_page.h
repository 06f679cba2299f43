#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "osprey/eval/evaluator.h"

namespace osprey::eval {

/// The text of index.html: an evaluation that has `at_iou_50`, with its gallery. Links lead to `picture_file` only.
std::string gallery_page(const EvaluationResult& result, int64_t step);

/// "worst_01.jpg", "best_12.jpg".
std::string picture_file(std::string_view list, size_t index);

/// "3 errors: 1 missed, 2 false alarms; 10 right"
std::string error_summary(const GalleryImage& image);

/// Parts of the page, each an element of its own.
std::string html_class_table(const EvaluationResult& result);
std::string html_curves(const EvaluationResult& result);     ///< SVG
std::string html_confusion(const EvaluationResult& result);  ///< of large label maps the classes with most errors

}  // namespace osprey::eval
