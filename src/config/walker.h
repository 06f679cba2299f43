#pragma once
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/lexer.h"
#include "osprey/config/source_map.h"

namespace osprey::config {

/// Walks a text beside the descriptor of the message it should be: notes where each field stands and everything that is
/// wrong.
///
/// protobuf's own parser decides what is valid and makes the message; it stops at its first error, though, and knows
/// neither paths nor neighbours. The walker finds the rest: after a syntax error it goes on at the next line that
/// begins a field, or behind the brace that closes the message.
class Walker {
 public:
  /// base: what the text will be merged into, so that elements of lists are counted on from there; may be null.
  Walker(std::string_view text, const std::string& source, const google::protobuf::Descriptor* root,
         const google::protobuf::Message* base);

  FieldOrigins origins;
  std::vector<Finding> findings;  ///< in the order of the text

  bool too_deep = false;  ///< messages nest beyond kMaxNesting; protobuf does not count those inside an Any

  /// The place of an offset as an origin.
  Origin origin_at(size_t offset) const;

 private:
  using Field = google::protobuf::FieldDescriptor;
  struct Frame {
    const google::protobuf::Descriptor* type;
    std::string path;
    const google::protobuf::Message* base;
    size_t opened;  ///< offset of its opening brace; unused for the root
    char closing;   ///< '\0' for the root
  };

  const Token& cur() const { return tokens_[at_]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  void find(size_t offset, const std::string& path, const std::string& message) {
    findings.push_back({offset, path, message});
  }

  void walk_message(const google::protobuf::Descriptor* type, const std::string& path,
                    const google::protobuf::Message* base);
  void walk_frame();
  void walk_field();
  void walk_any();
  void walk_values(const Field* field, const std::string& path, size_t name_offset);
  void walk_value(const Field* field, const std::string& path);
  void check_scalar(const Field* field, const std::string& path);
  void check_repetition(const Field* field, const std::string& path, size_t offset);
  void unknown_field(const Token& name);
  bool missing_brace(const Token& name);
  void skip_value();
  void skip_block();
  void resume();
  const google::protobuf::Message* base_of(const Field* field) const;

  LineIndex lines_;
  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::vector<Frame> frames_;
  std::map<std::string, int> elements_;  ///< how many each list has, by its path
  int never_closed_ = 0;                 ///< how many more braces open than close
  size_t unwind_to_ = SIZE_MAX;          ///< while a forgotten brace is made up for: the number of frames to keep
  size_t suspect_ = SIZE_MAX;            ///< offset of a brace whose closing brace is indented otherwise
};

}  // namespace osprey::config
