#include "train/trial.h"

namespace osprey::train {

RunOutcome make_trial_steps(Assembly& assembly, const JobOptions& job, data::BatchSource& source,
                            std::vector<Hook*> hooks, int64_t count, std::function<int()> ends) {
  TrainerParts parts;
  parts.state = &assembly.state;
  parts.source = &source;
  parts.gradients = assembly.gradients.get();
  parts.hooks = std::move(hooks);
  parts.signal = std::move(ends);
  parts.replicas = job.replicas;
  TrainerOptions options;
  options.num_steps = count;
  options.cuda_graph = assembly.cuda_graph;
  options.look_every_n = assembly.train().log_every_n_steps();
  options.step = assembly.step;
  return run(parts, options);
}

}  // namespace osprey::train
