#include "coco_contents.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "osprey/base/error.h"

namespace osprey::data {
namespace {

// Keeps of the stream what is needed. Depth 1 is the file's object, 2 one of its lists, 3 an element of the list.
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  CocoContents contents;
  std::string error;

  bool null() override { return true; }
  bool boolean(bool value) override { return number(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max()))
      return number(static_cast<double>(value));
    return number(static_cast<double>(value), static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ != 3) return true;
    if (list_ == "images" && key_ == "file_name") image_.file_name = value;
    if (list_ == "categories" && key_ == "name") category_.name = value;
    // Some exporters write ids as text.
    if (key_ == "id" || key_ == "image_id" || key_ == "category_id") {
      char* end = nullptr;
      const int64_t id = std::strtoll(value.c_str(), &end, 10);
      if (end != value.c_str() && *end == '\0') return number(static_cast<double>(id), id);
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (++depth_ == 3) {
      image_ = {};
      annotation_ = {};
      category_ = {};
    }
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) list_ = value;
    if (depth_ == 3) key_ = value;
    return true;
  }
  bool end_object() override {
    if (depth_-- != 3) return true;
    if (list_ == "images") contents.images.push_back(std::move(image_));
    if (list_ == "annotations") contents.annotations.push_back(annotation_);
    if (list_ == "categories") contents.categories.push_back(std::move(category_));
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& exception) override {
    error = fmt::format("is not valid JSON at byte {}: {}", position, exception.what());
    return false;
  }

 private:
  bool number(double value) {
    constexpr double kLargest = 9e15;  // up to here a double tells whole numbers apart
    const bool is_whole = value == std::floor(value) && std::abs(value) <= kLargest;
    return number(value, is_whole ? static_cast<int64_t>(value) : CocoContents::kNone);
  }
  /// whole  CocoContents::kNone: it is none
  bool number(double value, int64_t whole) {
    if (depth_ == 4 && list_ == "annotations" && key_ == "bbox") {
      if (annotation_.box_numbers < 4) annotation_.xywh[static_cast<size_t>(annotation_.box_numbers)] = value;
      ++annotation_.box_numbers;
    }
    if (depth_ != 3) return true;
    if (int64_t* const field = whole_field()) {
      if (whole == CocoContents::kNone) return refuse(value);
      *field = whole;
    } else if (list_ == "annotations") {
      if (key_ == "area") annotation_.area = value;
      if (key_ == "iscrowd") annotation_.is_crowd = value != 0;
    }
    return true;
  }

  /// Where the value that is read now goes, if it has to be a whole number; else null.
  int64_t* whole_field() {
    if (list_ == "images") {
      if (key_ == "id") return &image_.id;
      if (key_ == "width") return &image_.width;
      if (key_ == "height") return &image_.height;
    } else if (list_ == "annotations") {
      if (key_ == "image_id") return &annotation_.image_id;
      if (key_ == "category_id") return &annotation_.category_id;
    } else if (list_ == "categories" && key_ == "id") {
      return &category_.id;
    }
    return nullptr;
  }

  bool refuse(double value) {
    const size_t index = list_ == "images"        ? contents.images.size()
                         : list_ == "annotations" ? contents.annotations.size()
                                                  : contents.categories.size();
    error = fmt::format("{}[{}]: {} must be a whole number, found {}", list_, index, key_, value);
    return false;
  }

  int depth_ = 0;
  std::string list_, key_;
  CocoContents::Image image_;
  CocoContents::Annotation annotation_;
  CocoContents::Category category_;
};

}  // namespace

CocoContents read_coco_contents(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw DataError(file + ": is a folder; the input of this format is a JSON file of instances");
  std::ifstream in(file, std::ios::binary);
  if (!in) throw DataError(fmt::format("{}: cannot open: {}", file, std::strerror(errno)));
  Handler handler;
  if (!nlohmann::json::sax_parse(in, &handler)) throw DataError(fmt::format("{}: {}", file, handler.error));
  if (handler.contents.images.empty()) throw DataError(file + ": has no \"images\"; is it a COCO instances file?");
  return std::move(handler.contents);
}

}  // namespace osprey::data
