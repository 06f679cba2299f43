#include "coco_contents.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/filereadstream.h>
#include <rapidjson/reader.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "osprey/base/error.h"

namespace osprey::data {
namespace {

/// Whether it holds half of a surrogate pair, "\udce4", which no UTF-8 has and rapidjson 1.1 lets pass.
bool has_half_pair(std::string_view text) {
  constexpr char kLead = '\xED';
  constexpr unsigned char kFirst = 0xA0;  // of the bytes behind it that make one
  for (size_t at = text.find(kLead); at != std::string_view::npos; at = text.find(kLead, at + 1))
    if (at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) >= kFirst) return true;
  return false;
}

// Keeps of the stream what is needed. Depth 1 is the file's object, 2 one of its lists, 3 an element of the list.
class Handler final : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  CocoContents contents;
  std::string error;
  bool is_badly_encoded = false;

  bool Bool(bool value) { return number(value ? 1 : 0); }
  bool Int(int value) { return number(value, value); }
  bool Uint(unsigned value) { return number(value, value); }
  bool Int64(int64_t value) { return number(static_cast<double>(value), value); }
  bool Uint64(uint64_t value) {
    return std::in_range<int64_t>(value) ? Int64(static_cast<int64_t>(value)) : number(static_cast<double>(value));
  }
  bool Double(double value) { return number(value); }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    if (!is_text({text, length})) return false;
    if (depth_ != 3) return true;
    if (list_ == "images" && key_ == "file_name") image_.file_name.assign(text, length);
    if (list_ == "categories" && key_ == "name") category_.name.assign(text, length);
    // Some exporters write ids as text.
    if (key_ == "id" || key_ == "image_id" || key_ == "category_id") {
      char* end = nullptr;
      const int64_t id = std::strtoll(text, &end, 10);
      if (end != text && *end == '\0') return number(static_cast<double>(id), id);
    }
    return true;
  }
  bool StartObject() {
    if (++depth_ == 3) {
      image_ = {};
      annotation_ = {};
      category_ = {};
    }
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    if (!is_text({text, length})) return false;
    if (depth_ == 1) list_.assign(text, length);
    if (depth_ == 3) key_.assign(text, length);
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    if (depth_-- != 3) return true;
    if (list_ == "images") contents.images.push_back(std::move(image_));
    if (list_ == "annotations") contents.annotations.push_back(annotation_);
    if (list_ == "categories") contents.categories.push_back(std::move(category_));
    return true;
  }
  bool StartArray() {
    ++depth_;
    return true;
  }
  bool EndArray(rapidjson::SizeType) {
    --depth_;
    return true;
  }

 private:
  bool is_text(std::string_view text) {
    is_badly_encoded = has_half_pair(text);
    return !is_badly_encoded;
  }
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
    if (depth_ != 3 || !std::isfinite(value)) return true;  // NaN is Python's word for what is not known, as null is
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

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

void pass_over_byte_order_mark(rapidjson::FileReadStream& stream) {
  const char* const begin = stream.Peek4();
  if (begin == nullptr || std::string_view(begin, kByteOrderMark.size()) != kByteOrderMark) return;
  for (size_t i = 0; i < kByteOrderMark.size(); ++i) stream.Take();
}

}  // namespace

CocoContents read_coco_contents(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw DataError(file + ": is a folder; the input of this format is a JSON file of instances");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "rb"), &std::fclose);
  if (!in) throw DataError(fmt::format("{}: cannot open: {}", file, std::strerror(errno)));
  std::vector<char> buffer(1 << 16);
  rapidjson::FileReadStream stream(in.get(), buffer.data(), buffer.size());
  pass_over_byte_order_mark(stream);
  Handler handler;
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseFullPrecisionFlag | rapidjson::kParseNanAndInfFlag |
                              rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (std::ferror(in.get())) throw DataError(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  if (!handler.error.empty()) throw DataError(fmt::format("{}: {}", file, handler.error));
  if (!result)
    throw DataError(
        fmt::format("{}: is not valid JSON at byte {}: {}", file, result.Offset(),
                    rapidjson::GetParseError_En(handler.is_badly_encoded ? rapidjson::kParseErrorStringInvalidEncoding
                                                                         : result.Code())));
  if (handler.contents.images.empty()) throw DataError(file + ": has no \"images\"; is it a COCO instances file?");
  return std::move(handler.contents);
}

}  // namespace osprey::data
