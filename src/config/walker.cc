#include "config/walker.h"

#include <fmt/format.h>

#include <cstdlib>

#include "config/scalar.h"
#include "osprey/base/nearest.h"
#include "osprey/config/parse.h"

namespace osprey::config {
namespace {

using google::protobuf::Descriptor;

/// Fields that public configs have from older or later releases of the original than the one whose schema this is.
const std::map<std::string, const char*> kOfOtherReleases = {
    {"SsdFeatureExtractor.batch_norm_trainable", "train_config.freeze_batchnorm says whether batch norms are trained"},
    {"SsdFeatureExtractor.use_hardswish", "conv_hyperparams.activation names the activation"},
    {"TrainConfig.include_global_step", "a run starts at step 0"},
    {"TrainConfig.load_all_optimizer_checkpoint_vars", "optimizers start anew"},
    {"TrainConfig.load_all_moving_average_checkpoint_vars", "averages start at the weights"},
    {"BidirectionalFeaturePyramidNetworks.use_native_resize_op", "the result is the same"},
    {"FeaturePyramidNetworks.use_native_resize_op", "the result is the same"},
    {"EvalConfig.image_classes_field_map_empty_to_ones",
     "in pictures without labels of their own all classes were looked for"},
    {"InputReader.use_keypoint_label_map", "keypoints are not trained on"}};

std::vector<std::string> field_names(const Descriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  return names;
}

std::string join(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

}  // namespace

Walker::Walker(std::string_view text, const std::string& source, const Descriptor* root,
               const google::protobuf::Message* base)
    : lines_(text), source_(source), tokens_(tokenize(text, findings)) {
  for (const Token& token : tokens_) never_closed_ += token.opens() - token.closes();
  frames_.push_back({root, "", base, 0, '\0'});
  walk_frame();
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.offset < b.offset; });
}

Origin Walker::origin_at(size_t offset) const {
  return {Origin::Kind::kFile, source_, lines_.line(offset), lines_.column(offset), lines_.text(offset)};
}

void Walker::walk_message(const Descriptor* type, const std::string& path, const google::protobuf::Message* base) {
  if (frames_.size() > kMaxNesting) {
    too_deep = true;
    find(cur().offset, path, fmt::format("messages nest more than {} deep", kMaxNesting));
    return skip_block();
  }
  frames_.push_back({type, path, base, cur().offset, cur().is('{') ? '}' : '>'});
  advance();
  walk_frame();
  frames_.pop_back();
  if (frames_.size() <= unwind_to_) unwind_to_ = SIZE_MAX;
}

void Walker::walk_frame() {
  const bool root = frames_.size() == 1;
  while (frames_.size() <= unwind_to_) {
    const Frame& frame = frames_.back();
    if (cur().kind == Token::Kind::kEnd) {
      if (!root) {
        std::string message =
            fmt::format("the text ends here, but the brace opened at line {} is not closed", lines_.line(frame.opened));
        if (suspect_ != SIZE_MAX)
          message += fmt::format("; its indentation points at the one opened at line {}", lines_.line(suspect_));
        find(cur().offset, frame.path, message);
        unwind_to_ = 1;  // said once, for the innermost
      }
      return;
    }
    if (!cur().closes()) {
      walk_field();
      continue;
    }
    if (root) {
      find(cur().offset, "", "closing brace without an opening one");
      advance();
      continue;
    }
    if (cur().text[0] != frame.closing)
      find(cur().offset, frame.path,
           fmt::format("closed by '{}' where the opening at line {} needs '{}'", cur().text, lines_.line(frame.opened),
                       frame.closing));
    if (cur().first_on_line && suspect_ == SIZE_MAX && lines_.indent(cur().offset) < lines_.indent(frame.opened))
      suspect_ = frame.opened;
    advance();
    return;
  }
}

void Walker::walk_field() {
  const Token name = cur();
  const std::string path = frames_.back().path;
  const Descriptor* type = frames_.back().type;
  if (name.is('[')) return walk_any();
  if (name.kind != Token::Kind::kIdentifier) {
    find(name.offset, path, fmt::format("expected the name of a field, found {}", shown(name)));
    advance();
    return resume();
  }
  const Field* field = type->FindFieldByName(std::string(name.text));
  if (field == nullptr) {
    if (missing_brace(name)) return;
    return unknown_field(name);
  }
  const std::string field_path = join(path, name.text);
  advance();
  check_repetition(field, field_path, name.offset);
  walk_values(field, field_path, name.offset);
  if (cur().is(',') || cur().is(';')) advance();
}

void Walker::walk_any() {
  // [type.googleapis.com/package.Message] { ... }: the message inside a google.protobuf.Any, at the path of the Any
  // itself.
  const Token open = cur();
  std::string name;
  for (advance(); cur().kind != Token::Kind::kEnd && !cur().is(']') && !cur().opens() && !cur().closes(); advance())
    name += cur().text;
  if (cur().is(']')) advance();
  if (cur().is(':')) advance();
  const std::string path = frames_.back().path;
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const Descriptor* type = pool->FindMessageTypeByName(name.substr(name.rfind('/') + 1));
  if (frames_.back().type->full_name() != "google.protobuf.Any") {
    find(open.offset, path, fmt::format("extension [{}] is not known", name));
    skip_value();
  } else if (type == nullptr) {
    find(open.offset, path, fmt::format("no message type '{}' is linked into this program", name));
    skip_value();
  } else if (!cur().opens()) {
    find(cur().offset, path, fmt::format("expected '{{' and a {}, found {}", type->name(), shown(cur())));
    resume();
  } else {
    walk_message(type, path, nullptr);
  }
  if (cur().is(',') || cur().is(';')) advance();
}

void Walker::check_repetition(const Field* field, const std::string& path, size_t offset) {
  if (field->is_repeated()) return;
  const auto replace = [&](const std::string& earlier) {
    const Origin* const origin = origins.find(earlier);
    if (origin == nullptr) return;
    origins.add_without_effect(
        {earlier, fmt::format("is replaced by {} at line {}", path, lines_.line(offset)), *origin});
    origins.erase(earlier);
    std::erase_if(elements_, [&](const auto& list) { return list.first.starts_with(earlier + "."); });
  };
  if (field->cpp_type() != Field::CPPTYPE_MESSAGE) replace(path);  // messages are merged
  const auto* oneof = field->real_containing_oneof();
  for (int i = 0; oneof != nullptr && i < oneof->field_count(); ++i)
    if (oneof->field(i) != field) replace(join(frames_.back().path, oneof->field(i)->name()));
}

void Walker::walk_values(const Field* field, const std::string& path, size_t name_offset) {
  const bool is_message = field->cpp_type() == Field::CPPTYPE_MESSAGE;
  if (cur().is(':')) {
    advance();
  } else if (!is_message) {
    find(cur().offset, path,
         cur().opens() ? fmt::format("is {}, not a message", kind_of(field))
                       : fmt::format("expected ':' and a value, found {}", shown(cur())));
    if (cur().opens()) return skip_block();
    return resume();
  }
  if (!field->is_repeated()) {
    origins.set(path, origin_at(name_offset));
    return walk_value(field, path);
  }
  if (origins.find(path) == nullptr) origins.set(path, origin_at(name_offset));
  const Frame& frame = frames_.back();
  const bool is_map = field->is_map();
  int index = elements_[path];
  if (frame.base != nullptr && index == 0) index = frame.base->GetReflection()->FieldSize(*frame.base, field);
  auto element = [&](size_t offset) {
    // The entries of a map have no order that a path could name; all of them stand where the first does.
    const std::string element_path = is_map ? path : fmt::format("{}[{}]", path, index++);
    const Origin first = *origins.find(path);
    if (!is_map) origins.set(element_path, origin_at(offset));
    walk_value(field, element_path);
    if (!is_map) return;
    origins.erase(path);
    origins.set(path, first);
  };
  if (!cur().is('[')) {
    element(name_offset);
  } else {
    advance();
    while (!cur().is(']') && frames_.size() <= unwind_to_) {
      const size_t before = at_;
      element(cur().offset);
      if (cur().is(',')) {
        advance();
      } else if (!cur().is(']')) {
        find(cur().offset, path, fmt::format("expected ',' or ']' in the list, found {}", shown(cur())));
        resume();
        break;
      }
      if (at_ == before) break;
    }
    if (cur().is(']')) advance();
  }
  elements_[path] = index;
}

void Walker::walk_value(const Field* field, const std::string& path) {
  if (field->cpp_type() != Field::CPPTYPE_MESSAGE) return check_scalar(field, path);
  if (cur().opens()) return walk_message(field->message_type(), path, base_of(field));
  find(cur().offset, path,
       fmt::format("is a message, {}: expected '{{', found {}", field->message_type()->name(), shown(cur())));
  if (cur().first_on_line || cur().closes()) return resume();
  skip_value();
}

const google::protobuf::Message* Walker::base_of(const Field* field) const {
  const auto* base = frames_.back().base;
  if (base == nullptr || field->is_repeated() || !base->GetReflection()->HasField(*base, field)) return nullptr;
  return &base->GetReflection()->GetMessage(*base, field);
}

void Walker::check_scalar(const Field* field, const std::string& path) {
  const Token first = cur();
  if (first.kind == Token::Kind::kEnd || first.closes() ||
      (first.kind == Token::Kind::kSymbol && !first.is('-') && !first.opens() && !first.is('['))) {
    find(first.offset, path, fmt::format("expected {}, found {}", kind_of(field), shown(first)));
    if (first.closes() || first.kind == Token::Kind::kEnd) return;
    advance();
    return resume();
  }
  if (first.kind == Token::Kind::kIdentifier && tokens_[at_ + 1].is(':') && first.first_on_line) {
    return find(first.offset, path, "has no value before the next field");
  }
  if (first.opens() || first.is('[')) {
    find(first.offset, path, fmt::format("expected {}, found {}", kind_of(field), shown(first)));
    return skip_value();
  }
  const bool negative = first.is('-');
  if (negative) advance();
  const Token value = cur();
  const std::string problem = scalar_problem(field, value, negative);
  if (!problem.empty()) find(value.offset, path, problem);
  if (value.closes() || value.kind == Token::Kind::kEnd) return;
  advance();
  if (value.kind == Token::Kind::kString)
    while (cur().kind == Token::Kind::kString) advance();  // neighbouring strings are one
  if (!problem.empty() && !cur().first_on_line && !cur().closes() && !cur().is(',') && !cur().is(';') &&
      !cur().is(']') &&
      !(cur().kind == Token::Kind::kIdentifier && (tokens_[at_ + 1].is(':') || tokens_[at_ + 1].opens())))
    resume();  // the rest of a value that is no value, such as a path without quotes
}

bool Walker::missing_brace(const Token& name) {
  if (never_closed_ <= 0) return false;
  for (size_t i = frames_.size() - 1; i-- > 0;) {
    if (frames_[i].type->FindFieldByName(std::string(name.text)) == nullptr) continue;
    std::string message = fmt::format("belongs to {}, but the brace opened at line {} is not closed",
                                      i == 0 ? "the top level" : frames_[i].path, lines_.line(frames_[i + 1].opened));
    if (suspect_ != SIZE_MAX && suspect_ != frames_[i + 1].opened)
      message += fmt::format("; its indentation points at the one opened at line {}", lines_.line(suspect_));
    find(name.offset, join(frames_[i].path, name.text), message);
    never_closed_ -= static_cast<int>(frames_.size() - 1 - i);
    suspect_ = SIZE_MAX;
    unwind_to_ = i + 1;
    return true;
  }
  return false;
}

void Walker::unknown_field(const Token& name) {
  const Frame& frame = frames_.back();
  const std::string path = join(frame.path, name.text);
  const auto known = kOfOtherReleases.find(fmt::format("{}.{}", frame.type->name(), name.text));
  if (known != kOfOtherReleases.end()) {
    origins.add_without_effect({path, fmt::format("is ignored: {}", known->second), origin_at(name.offset)});
  } else {
    find(name.offset, path,
         fmt::format("{} has no such field{}", frame.type->name(), did_you_mean(name.text, field_names(frame.type))));
  }
  advance();
  if (cur().is(':') || cur().opens()) {
    skip_value();
    if (cur().is(',') || cur().is(';')) advance();
  } else {
    resume();
  }
}

void Walker::skip_value() {
  if (cur().is(':')) advance();
  if (cur().opens() || cur().is('[')) return skip_block();
  if (cur().is('-')) advance();
  if (cur().closes()) return;
  const bool string = cur().kind == Token::Kind::kString;
  advance();
  while (string && cur().kind == Token::Kind::kString) advance();
}

void Walker::skip_block() {
  // Without recursion: unknown messages may nest as deep as the text is long.
  int depth = 0;
  do {
    if (cur().kind == Token::Kind::kEnd) return;
    if (cur().opens() || cur().is('[')) ++depth;
    if (cur().closes() || cur().is(']')) --depth;
    advance();
  } while (depth > 0);
}

void Walker::resume() {
  while (cur().kind != Token::Kind::kEnd && !cur().closes()) {
    const bool field_begins = cur().first_on_line && cur().kind == Token::Kind::kIdentifier &&
                              (tokens_[at_ + 1].is(':') || tokens_[at_ + 1].opens());
    if (field_begins) return;
    if (cur().opens()) {
      skip_block();
    } else {
      advance();
    }
  }
}

}  // namespace osprey::config
