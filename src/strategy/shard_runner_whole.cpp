#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "strategy/shard_losses.h"
#include "strategy/shard_runner.h"
#include "strategy/shard_scope.h"

namespace lockstep::strategy {

/// One loss of the rows that all shards of all towers come to. The rows go through the host to the
/// first tower, and the slopes of the loss come back.
void ShardRunner::run_whole_batch(Tower& tower, const detail::ShardWork& work) {
  using collective::TensorList;
  if (method_.clip.per_shard_norm > 0)
    throw ConfigError(
        "clip.per_shard_norm needs a loss of each shard, and whole_batch has one of the whole "
        "batch; use clip.global_norm.");
  std::vector<TensorList> rows, on_host;
  for_each_shard(tower, [&] {
    TensorList& own = rows.emplace_back();
    TensorList& copies = on_host.emplace_back();
    if (!begin_shard(tower, work.shards)) return;
    own =
        in_scope(tower, method_, tower.shard, [&] { return work.rows(tower.place, tower.shard); });
    end_forward(tower);
    for (const torch::Tensor& tensor : own) copies.push_back(tensor.detach().cpu());
  });
  const std::vector<TensorList> slopes = tower.collective->through_first(
      tower.rank, on_host,
      [&](const std::vector<TensorList>& all) { return run_head(tower, work, all); });

  const torch::Device device = device::torch_device(tower.device);
  tower.enter(Stage::backward);
  for_each_shard(tower, [&] {
    const auto i = static_cast<std::size_t>(tower.shard - tower.shards.first);
    TensorList roots, grown;
    for (std::size_t k = 0; k < rows[i].size(); ++k)
      if (rows[i][k].requires_grad() && slopes[i][k].defined()) {
        roots.push_back(std::move(rows[i][k]));
        grown.push_back(slopes[i][k].to(device));
      }
    rows[i].clear();
    tower.generator.set_current_seed(
        device::stream_seed(method_.seed, tower.pass.step, method_.shards + 1 + tower.shard));
    if (!roots.empty()) backward(tower, roots, grown);
    end_shard(tower);
  });
  replicas_.check_shard(tower.place);  // now that the graphs are gone
}

/// The head of a loss over the whole batch, on the first tower. Returns, by shard, how the loss
/// changes with its rows.
std::vector<collective::TensorList> ShardRunner::run_head(
    Tower& tower, const detail::ShardWork& work, const std::vector<collective::TensorList>& rows) {
  using collective::TensorList;
  std::vector<TensorList> slopes(rows.size());
  const auto some = std::ranges::find_if(rows, [](const auto& list) { return !list.empty(); });
  if (some == rows.end()) return slopes;  // an empty batch
  tower.enter(Stage::forward);
  tower.in_head = true;
  const auto out = c10::make_scope_exit([&] { tower.in_head = false; });
  const torch::Device device = device::torch_device(tower.device);
  TensorList all;
  for (std::size_t k = 0; k < some->size(); ++k) {
    TensorList parts;
    for (const TensorList& list : rows)
      if (!list.empty()) parts.push_back(list.at(k));
    all.push_back(joined(parts, 0, "rows(model, shard), tensor " + std::to_string(k)).to(device));
    if (all.back().is_floating_point()) all.back().requires_grad_();
  }
  {
    Loss loss = in_scope(tower, method_, method_.shards, [&] { return work.head(all); });
    if (keep(tower, loss, method_)) backward(tower, {scaled(loss.sum, tower.pass)}, {});
  }
  std::vector<std::int64_t> row(some->size());
  for (std::size_t shard = 0; shard < rows.size(); ++shard)
    for (std::size_t k = 0; k < rows[shard].size(); ++k) {
      const std::int64_t count = rows[shard][k].size(0);
      const torch::Tensor slope = all[k].grad();
      slopes[shard].push_back(slope.defined() ? slope.narrow(0, row[k], count).cpu() : slope);
      row[k] += count;
    }
  return slopes;
}

}  // namespace lockstep::strategy
