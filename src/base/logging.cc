#include "osprey/base/logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "osprey/base/error.h"

namespace osprey {
namespace {

void log_to(std::vector<spdlog::sink_ptr> sinks) {
  auto logger = std::make_shared<spdlog::logger>("osprey", sinks.begin(), sinks.end());
  logger->set_pattern("%L%m%d %H:%M:%S.%f %t %s:%#] %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

void set_up_logging() { log_to({std::make_shared<spdlog::sinks::stderr_sink_mt>()}); }

void log_as_replica(long rank) {
  spdlog::default_logger()->set_pattern("%L%m%d %H:%M:%S.%f %t %s:%#] [replica " + std::to_string(rank) + "] %v");
  spdlog::default_logger()->set_level(spdlog::level::warn);
}

void log_to_file(const std::string& file) try {
  log_to(
      {std::make_shared<spdlog::sinks::stderr_sink_mt>(), std::make_shared<spdlog::sinks::basic_file_sink_mt>(file)});
} catch (const spdlog::spdlog_ex& error) {
  throw DataError(file + ": cannot write the log: " + error.what());
}

}  // namespace osprey
