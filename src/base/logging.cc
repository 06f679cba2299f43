#include "osprey/base/logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "osprey/base/error.h"

namespace osprey {
namespace {

using FileSink = spdlog::sinks::basic_file_sink_mt;
using Waiting = spdlog::sinks::ringbuffer_sink_mt;  ///< what a file that is not open yet is to get

constexpr size_t kWaiting = 256;

template <class Sink>
std::shared_ptr<Sink> present() {
  for (const spdlog::sink_ptr& sink : spdlog::default_logger()->sinks())
    if (auto found = std::dynamic_pointer_cast<Sink>(sink)) return found;
  return nullptr;
}

void log_to(std::vector<spdlog::sink_ptr> sinks) {
  auto logger = std::make_shared<spdlog::logger>("osprey", sinks.begin(), sinks.end());
  logger->set_pattern("%L%m%d %H:%M:%S.%f %t %s:%#] %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

void set_up_logging() {
  log_to({std::make_shared<spdlog::sinks::stderr_sink_mt>(), std::make_shared<Waiting>(kWaiting)});
}

void log_as_replica(long rank) {
  spdlog::default_logger()->set_pattern("%L%m%d %H:%M:%S.%f %t %s:%#] [replica " + std::to_string(rank) + "] %v");
  spdlog::default_logger()->set_level(spdlog::level::warn);
}

void note_in_log_file(const std::string& message) try {
  const auto file = present<FileSink>();
  if (file == nullptr) return;
  file->log({spdlog::source_loc{__FILE__, __LINE__, __func__}, "osprey", spdlog::level::err, message});
  file->flush();
} catch (const spdlog::spdlog_ex&) {  // a full disk, which may be what the message is about
}

void log_to_file(const std::string& file) try {
  const auto waiting = present<Waiting>();
  const auto opened = std::make_shared<FileSink>(file);
  log_to({std::make_shared<spdlog::sinks::stderr_sink_mt>(), opened});
  if (waiting == nullptr) return;
  for (const auto& message : waiting->last_raw()) opened->log(message);
  opened->flush();
} catch (const spdlog::spdlog_ex& error) {
  throw DataError(file + ": cannot write the log: " + error.what());
}

}  // namespace osprey
