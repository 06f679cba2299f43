#include "osprey/config/parse.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "config/walker.h"

namespace osprey::config {
namespace {

constexpr size_t kMostFindings = 50;  // more say nothing new, and a binary file would give thousands

struct FirstError final : google::protobuf::io::ErrorCollector {
  int line = -1;
  std::string message;
  void AddError(int at_line, int, const std::string& text) override {
    if (message.empty()) {
      line = at_line;
      message = text;
    }
  }
};

void refuse_binary(std::string_view text, const std::string& name) {
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos)
    throw ConfigError(fmt::format("{}: is not a text file: byte {} is zero", name, nul));
}

std::string blocks(const Walker& walker) {
  std::string result;
  for (size_t i = 0; i < walker.findings.size() && i < kMostFindings; ++i) {
    const Finding& finding = walker.findings[i];
    const Origin origin = walker.origin_at(finding.offset);
    const std::string path = finding.path.empty() ? "syntax" : finding.path;
    result += (i == 0 ? "" : "\n") + describe(origin, path, finding.message);
  }
  if (walker.findings.size() > kMostFindings)
    result += fmt::format("\nand {} more", walker.findings.size() - kMostFindings);
  return result;
}

}  // namespace

std::shared_ptr<FieldOrigins> parse_into(google::protobuf::Message& message, std::string_view text,
                                         const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  refuse_binary(text, name);

  Walker walker(text, name, message.GetDescriptor(), &message);
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  parser.AllowUnknownField(true);  // the walker knows which
  std::unique_ptr<google::protobuf::Message> fresh(message.New());
  // Of a field that is set twice the last one counts, as for the original, which merges; the walker has noted it.
  const bool sound = walker.findings.empty() && !walker.too_deep;
  if (sound && parser.MergeFromString(std::string(text), fresh.get())) {
    message.MergeFrom(*fresh);
    return std::make_shared<FieldOrigins>(std::move(walker.origins));
  }
  if (walker.findings.empty()) throw ConfigError(fmt::format("{}:{}: {}", name, error.line + 1, error.message));
  throw ConfigError(blocks(walker));
}

std::string read_config_file(const std::string& file, const std::string& what) {
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown))
    throw ConfigError(fmt::format("{}: the {} is a directory, not a file", file, what));
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  const bool has_bytes =
      std::filesystem::is_regular_file(file, unknown) && std::filesystem::file_size(file, unknown) > 0;
  if (!in || (text.fail() && has_bytes))
    throw ConfigError(fmt::format("{}: the {} cannot be read: {}", file, what, std::strerror(errno)));
  return text.str();
}

}  // namespace osprey::config
