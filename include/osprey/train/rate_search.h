#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/train/job.h"

namespace osprey::train {

/// Losses of steps whose learning rate rises.
struct RateCurve {
  std::vector<double> rates;   ///< of each step, rising
  std::vector<double> losses;  ///< as many, finite
};

/// What a curve says.
struct RateAdvice {
  double steepest = 0;  ///< the rate at which the loss falls fastest; 0 where no rate lowers it
  double lowest = 0;    ///< the rate at which the loss is lowest
};

/// Looks where the losses fall fastest over the logarithm of the rate, by least squares in windows of a tenth of the
/// steps, up to the window whose mean is lowest. The noise of single batches is in all of them.
///
/// curve   at least 10 steps
/// throws  c10::Error where it is shorter
RateAdvice advise(const RateCurve& curve);

/// Finds out which learning rates a training can have: makes `steps` steps, or fewer where the loss has risen to four
/// times its lowest or is not finite, with rates from 1e-6 to 10, each as many times the one before, in place of the
/// config's schedule. Begins with the weights that a new training would begin with, and writes nothing.
///
/// Returns one line of JSON: `loss_falls_fastest_at` (null where no rate lowers the loss), `loss_is_lowest_at`,
/// `configured_learning_rate` (after auto_scale_lr; null where the schedule is that of another program), and `curve`, a
/// list of [rate, loss]. Says in the log what to make of it.
///
/// steps   at least 20
/// throws  ConfigError for an optimizer of another program, and as `train` does
/// source  L. N. Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017, section 3.3
std::string find_learning_rate(config::Pipeline pipeline, const JobOptions& options, int64_t steps);

}  // namespace osprey::train
