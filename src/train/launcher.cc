#include "osprey/train/launcher.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>

#include "osprey/base/clock.h"
#include "osprey/base/error.h"

namespace osprey::train {
namespace {

/// The environment of this process with some variables set to other values.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// How a replica ended that did not end well.
struct Failure {
  int64_t rank = 0;
  int code = 0;
  bool killed = false;  ///< by a signal
  std::string text;
};

/// The replicas of one attempt.
class Crew {
 public:
  explicit Crew(const LaunchOptions& options) : options_(options) {
    struct sigaction action = {};  // who started this may have it ignored, and then no replica could be waited for
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &action, &former_action_);
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals_, signal);
    sigprocmask(SIG_BLOCK, &signals_, &former_);
    const int64_t port = options.master_port > 0 ? options.master_port : free_port();
    for (int64_t i = 0; i < options.clones; ++i) start(i, port);
  }
  ~Crew() {
    for (const auto& [process, rank] : running_) ::kill(process, SIGKILL);
    while (!running_.empty()) reap(0);
    sigprocmask(SIG_SETMASK, &former_, nullptr);
    ::sigaction(SIGCHLD, &former_action_, nullptr);
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Returns when all have ended; the worst of their failures, nothing where there is none.
  std::optional<Failure> wait() {
    std::optional<double> deadline;
    while (!running_.empty()) {
      const timespec pause{0, 200'000'000};
      const int signal = sigtimedwait(&signals_, nullptr, &pause);
      if (signal == SIGINT || signal == SIGTERM) {
        passed_on_ = signal;
        for (const auto& [process, rank] : running_) ::kill(process, signal);
      }
      while (reap(WNOHANG)) {
      }
      if (!deadline && !failures_.empty()) {
        const bool all_alike = failures_[0].rank == 0 && failures_[0].code == static_cast<int>(ExitCode::kUsage);
        deadline = now() + (all_alike ? 0 : options_.grace_seconds);
      }
      if (deadline && now() > *deadline) {
        for (const auto& [process, rank] : running_) {
          if (failures_[0].code != static_cast<int>(ExitCode::kUsage))
            SPDLOG_WARN("replica {} (process {}) did not end by itself and is killed", rank, process);
          ::kill(process, SIGKILL);
        }
        killing_ = true;
        while (!running_.empty()) reap(0);
      }
    }
    if (failures_.empty()) return std::nullopt;
    for (const Failure& failure : failures_)  // those that ended by themselves may only have lost this one
      if (failure.killed) return failure;
    return failures_.front();
  }

  int passed_on() const { return passed_on_; }

 private:
  void start(int64_t local_rank, int64_t port) {
    const int64_t rank = options_.machine * options_.clones + local_rank;
    std::map<std::string, std::string> changes = {{"RANK", std::to_string(rank)},
                                                  {"WORLD_SIZE", std::to_string(options_.machines * options_.clones)},
                                                  {"LOCAL_RANK", std::to_string(local_rank)},
                                                  {"LOCAL_WORLD_SIZE", std::to_string(options_.clones)},
                                                  {"MASTER_ADDR", options_.master_address},
                                                  {"MASTER_PORT", std::to_string(port)},
                                                  {"OSPREY_STARTER", "train_detector"},
                                                  {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
    if (std::getenv("OMP_NUM_THREADS") == nullptr)
      changes["OMP_NUM_THREADS"] =
          std::to_string(std::max<int64_t>(1, std::thread::hardware_concurrency() / options_.clones));
    std::vector<std::string> arguments = options_.arguments, environment = environment_with(changes);
    const std::vector<char*> argument_pointers = pointers(arguments), environment_pointers = pointers(environment);
    const pid_t parent = ::getpid(), process = ::fork();
    if (process < 0) throw DataError(fmt::format("replica {} cannot be started: {}", rank, std::strerror(errno)));
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // which has gone in the meantime
      ::setpgid(0, 0);                        // the terminal's signals come through the parent, once
      sigprocmask(SIG_SETMASK, &former_, nullptr);
      ::execve("/proc/self/exe", argument_pointers.data(), environment_pointers.data());
      ::_exit(127);
    }
    running_[process] = rank;
  }

  /// Takes note of one replica that has ended; false where none has.
  bool reap(int flags) {
    int status = 0;
    const pid_t process = ::waitpid(-1, &status, flags);
    const auto found = running_.find(process);
    if (found == running_.end()) return false;
    const int64_t rank = found->second;
    running_.erase(found);
    if (killing_) return true;  // that is no failure of its own
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      failures_.push_back({rank, static_cast<int>(ExitCode::kData), true,
                           fmt::format("replica {} (process {}) was ended by signal {} ({})", rank, process, signal,
                                       strsignal(signal))});
    } else if (WEXITSTATUS(status) != 0) {
      failures_.push_back(
          {rank, WEXITSTATUS(status), false,
           fmt::format("replica {} (process {}) ended with exit code {}", rank, process, WEXITSTATUS(status))});
    }
    return true;
  }

  const LaunchOptions& options_;
  sigset_t signals_{}, former_{};
  struct sigaction former_action_ {};
  std::map<pid_t, int64_t> running_;  ///< rank by process
  std::vector<Failure> failures_;     ///< in the order in which they were noticed
  int passed_on_ = 0;
  bool killing_ = false;
};

/// Whether the same run may go well the next time: nobody's config, numbers or memory are to blame.
bool may_go_well(const Failure& failure) {
  return failure.killed || failure.code == static_cast<int>(ExitCode::kData) ||
         failure.code == static_cast<int>(ExitCode::kInternal);
}

}  // namespace

int launch_replicas(const LaunchOptions& options) {
  if (options.clones < 1 || options.machines < 1 || options.machine < 0 || options.machine >= options.machines)
    throw ConfigError(fmt::format("machine {} of {} with {} replicas: that cannot be", options.machine,
                                  options.machines, options.clones));
  if (options.machines > 1 && options.master_port == 0)
    throw ConfigError("several machines need the address of the first: --master HOST:PORT");
  for (int64_t attempt = 0;; ++attempt) {
    Crew crew(options);
    const std::optional<Failure> failure = crew.wait();
    if (!failure) return static_cast<int>(ExitCode::kDone);
    if (crew.passed_on() != 0) return 128 + crew.passed_on();
    if (attempt >= options.max_restarts || !may_go_well(*failure)) {
      if (failure->code != static_cast<int>(ExitCode::kUsage)) SPDLOG_ERROR("{}", failure->text);
      return failure->code;  // what is wrong with a config, the replica itself has said
    }
    SPDLOG_WARN("{}; restart {} of {} from the last checkpoint", failure->text, attempt + 1, options.max_restarts);
  }
}

}  // namespace osprey::train
