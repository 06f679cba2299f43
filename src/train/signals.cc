#include "osprey/train/signals.h"

#include <unistd.h>

#include <csignal>

namespace osprey::train {
namespace {

// A signal handler can reach nothing but globals.
volatile std::sig_atomic_t received_signal = 0;
struct sigaction former_interrupt, former_terminate;

void note(int signal) {
  if (received_signal != 0) ::_exit(128 + signal);
  received_signal = signal;
}

}  // namespace

SignalGuard::SignalGuard() {
  received_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &former_interrupt);
  ::sigaction(SIGTERM, &action, &former_terminate);
}

SignalGuard::~SignalGuard() {
  ::sigaction(SIGINT, &former_interrupt, nullptr);
  ::sigaction(SIGTERM, &former_terminate, nullptr);
}

int SignalGuard::received() { return received_signal; }

}  // namespace osprey::train
