#pragma once

// Forward and backward of the shards that flow through a stage.

#include <lockstep/detail/stage_work.h>
#include <lockstep/method.h>

#include "strategy/pipeline/stage_models.h"
#include "strategy/pipeline/stage_tower.h"

namespace lockstep::strategy {

class StageRunner {
 public:
  /// All arguments must live on. `plan` is there when a step runs.
  StageRunner(const Method& method, bool recompute, int stages, int ahead, StageModels& models,
              const ParameterMap& map, const std::unique_ptr<StagePlan>& plan)
      : method_(method),
        recompute_(recompute),
        stages_(stages),
        ahead_(ahead),
        models_(models),
        map_(map),
        plan_(plan) {}

  /// Loads the tower's shards onto its device, where that was not done before.
  void load(StageTower& at, detail::Shards& shards) const;

  /// Computes the tower's shards, on its thread: losses at the last stage, gradients summed up the
  /// tree at each.
  void run(StageTower& at, const detail::StageWork& work) const;

  /// What clip.per_shard_norm needs of a shard: the squares of its gradient, by parameter, and the
  /// weight of its loss; negative: it has none.
  struct ShardNorm {
    std::vector<double> squares;
    double weight = -1;
  };

  /// Where the method clips each shard: what the tower knows of its shards goes into `norms`; then,
  /// when all towers have done so, gradients are scaled and summed up the tree.
  void bring_norms(const StageTower& at, std::vector<ShardNorm>& norms) const;
  void clip_shards(StageTower& at, const std::vector<ShardNorm>& norms) const;

  /// Autograd has accumulated the gradient of a parameter of the model at `place`.
  void gradient_ready(StageTower& at, Place place, std::size_t parameter) const;

 private:
  bool is_last(const StageTower& at) const { return at.stage + 1 == stages_; }
  void forward(StageTower& at, const detail::StageWork& work) const;
  void backward(StageTower& at, const detail::StageWork& work) const;
  void check_scripts(StageTower& at) const;
  Handed receive(StageTower& at, const detail::StageWork& work) const;
  Loss compute(StageTower& at, const detail::StageWork& work, Flight& flight,
               RandomState& random) const;

  const Method& method_;
  const bool recompute_;
  const int stages_, ahead_;
  StageModels& models_;
  const ParameterMap& map_;
  const std::unique_ptr<StagePlan>& plan_;
};

}  // namespace lockstep::strategy
