#include "support/log.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

namespace osprey::testing {

std::string logged_by(const std::function<void()>& call) {
  std::ostringstream log;
  struct Restored {  // also where `call` throws
    ~Restored() { spdlog::set_default_logger(logger); }
    std::shared_ptr<spdlog::logger> logger = spdlog::default_logger();
  };
  const Restored restored;
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  call();
  return log.str();
}

}  // namespace osprey::testing
