#include "eval/coco_reader.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/filereadstream.h>
#include <rapidjson/reader.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "osprey/base/error.h"

namespace osprey::eval {
namespace {

using ItemCallback = std::function<void(const std::string&, int64_t, const CocoItem&)>;

// Follows the parser: depth 1 is the root, lists of items stand in it (or are it), items in them, bbox in those.
class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  Handler(std::string file, const ItemCallback& item) : file_(std::move(file)), callback_(item) {}

  const std::vector<std::string>& lists() const { return lists_; }

  bool Default() { return value("of another type"); }
  bool Null() { return value("null"); }
  bool Bool(bool b) { return number(b ? 1 : 0); }
  bool Int(int v) { return whole(v); }
  bool Uint(unsigned v) { return whole(v); }
  bool Int64(int64_t v) { return whole(v); }
  bool Uint64(uint64_t v) { return number(static_cast<double>(v)); }
  bool Double(double v) { return number(v); }

  bool String(const char* text, rapidjson::SizeType length, bool) {
    if (depth_ == item_depth_ && in_list_) {
      const std::string string(text, length);
      if (key_ == "name") {
        item_.name = string;
      } else if (std::optional<CocoId>* id = id_field()) {
        *id = CocoId{.is_number = false, .text = string};
      } else {
        return value("text");
      }
      return true;
    }
    return value("text");
  }

  bool Key(const char* text, rapidjson::SizeType length, bool) {
    if (depth_ == 1 || (in_list_ && depth_ == item_depth_)) key_.assign(text, length);
    return true;
  }

  bool StartObject() {
    check_container("an object");
    ++depth_;
    if (in_list_ && depth_ == item_depth_) item_ = CocoItem{};
    return true;
  }

  bool EndObject(rapidjson::SizeType) {
    if (in_list_ && depth_ == item_depth_) {
      try {
        callback_(list_, index_, item_);
      } catch (const Error&) {
        throw;
      } catch (const std::runtime_error& error) {
        throw DataError(fmt::format("{}: {}[{}]: {}", file_, list_, index_, error.what()));
      }
      ++index_;
    }
    --depth_;
    return true;
  }

  bool StartArray() {
    ++depth_;
    if (depth_ == 1) {
      begin_list("", 2);
    } else if (depth_ == 2 && !in_list_ && (key_ == "images" || key_ == "annotations" || key_ == "categories")) {
      begin_list(key_, 3);
    } else if (in_list_ && depth_ == item_depth_) {
      throw DataError(fmt::format("{}: {}[{}]: expected an object, found a list", file_, list_, index_));
    } else if (in_list_ && depth_ == item_depth_ + 1 && key_ == "bbox") {
      item_.has_bbox = in_bbox_ = true;
    }
    return true;
  }

  bool EndArray(rapidjson::SizeType) {
    in_bbox_ = false;
    if (in_list_ && depth_ == item_depth_ - 1) in_list_ = false;
    --depth_;
    return true;
  }

 private:
  void begin_list(const std::string& name, int item_depth) {
    list_ = name;
    lists_.push_back(name);
    item_depth_ = item_depth;
    in_list_ = true;
    index_ = 0;
  }

  std::optional<CocoId>* id_field() {
    if (key_ == "id") return &item_.id;
    if (key_ == "image_id") return &item_.image_id;
    if (key_ == "category_id") return &item_.category_id;
    return nullptr;
  }

  bool whole(int64_t v) {
    if (in_list_ && depth_ == item_depth_) {
      if (std::optional<CocoId>* id = id_field()) {
        *id = CocoId{.number = v};
        return true;
      }
    }
    return number(static_cast<double>(v));
  }

  bool number(double v) {
    if (in_bbox_ && depth_ == item_depth_ + 1) {
      item_.bbox.push_back(v);
      return true;
    }
    if (!in_list_ || depth_ != item_depth_) return value("a number");
    if (std::optional<CocoId>* id = id_field()) {
      if (v != std::floor(v) || std::abs(v) > 9e15)
        throw DataError(
            fmt::format("{}: {}[{}]: {} must be a whole number or text, found {}", file_, list_, index_, key_, v));
      *id = CocoId{.number = static_cast<int64_t>(v)};
    } else if (key_ == "area") {
      item_.area = v;
    } else if (key_ == "score") {
      item_.score = v;
    } else if (key_ == "iscrowd") {
      item_.is_crowd = v;
    }
    return true;
  }

  void check_container(const char* found) {
    if (in_list_ && depth_ == item_depth_ && is_needed()) value(found);
  }
  bool is_needed() {
    return key_ == "bbox" || key_ == "area" || key_ == "score" || key_ == "iscrowd" || id_field() != nullptr;
  }

  // A value that is of no use here; an error where one of another type was needed.
  bool value(const char* found) {
    if (depth_ == 0) throw DataError(fmt::format("{}: expected COCO's JSON, found {} alone", file_, found));
    if (in_bbox_ && depth_ == item_depth_ + 1)
      throw DataError(fmt::format("{}: {}[{}]: bbox must hold numbers, found {}", file_, list_, index_, found));
    if (in_list_ && depth_ == item_depth_ - 1)
      throw DataError(fmt::format("{}: {}[{}]: expected an object, found {}", file_, list_, index_, found));
    if (in_list_ && depth_ == item_depth_ && is_needed())
      throw DataError(fmt::format("{}: {}[{}]: {} is {}", file_, list_, index_, key_, found));
    return true;
  }

  std::string file_;
  const ItemCallback& callback_;
  std::vector<std::string> lists_;
  std::string list_, key_;
  CocoItem item_;
  int depth_ = 0, item_depth_ = 0;
  int64_t index_ = 0;
  bool in_list_ = false, in_bbox_ = false;
};

// Line and column, from 1, of a byte of the file.
std::string place(std::FILE* file, size_t offset) {
  std::rewind(file);
  int64_t line = 1, column = 1;
  for (size_t i = 0; i < offset; ++i) {
    const int c = std::fgetc(file);
    if (c == EOF) break;
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
  return fmt::format("{}:{}", line, column);
}

}  // namespace

std::vector<std::string> read_coco_json(const std::string& file, const ItemCallback& item) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "rb"), &std::fclose);
  if (!in) throw DataError(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  std::vector<char> buffer(1 << 16);
  rapidjson::FileReadStream stream(in.get(), buffer.data(), buffer.size());
  Handler handler(file, item);
  rapidjson::Reader reader;
  constexpr unsigned kFlags =
      rapidjson::kParseFullPrecisionFlag | rapidjson::kParseNanAndInfFlag | rapidjson::kParseIterativeFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  if (std::ferror(in.get())) throw DataError(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  if (!result)
    throw DataError(fmt::format("{}:{}: not JSON: {}", file, place(in.get(), result.Offset()),
                                rapidjson::GetParseError_En(result.Code())));
  return handler.lists();
}

}  // namespace osprey::eval
