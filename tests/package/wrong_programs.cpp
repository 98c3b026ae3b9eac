// Programs that must not compile, one at a time: -DWRONG=3 is the third, 0 is right. `says` is what
// the compiler has to say, wrong_programs.py checks that.

#include <lockstep/mirrored.h>

namespace {

struct Net : torch::nn::Module {
  explicit Net(int width) : linear(register_module("linear", torch::nn::Linear(width, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
  torch::nn::Linear linear;
};

using Batch = torch::data::Example<>;

struct Unknown {
  torch::Tensor data, target;
};

struct Copied {
  torch::Tensor data, target;
  auto tensors() { return std::make_tuple(data, target); }
};

struct NoModule {};

struct Written : Net {
  explicit Written(int& width) : Net(++width) {}
};

[[maybe_unused]] torch::Tensor mean(Net& net, const Batch& shard) {
  return torch::nll_loss(net.forward(shard.data), shard.target);
}

[[maybe_unused]] lockstep::Metrics accuracy(Net&, const Batch&) { return {}; }

}  // namespace

int main() {
  const std::vector<Batch> batches;
#if WRONG == 3
  // says: Model must be a torch::nn::Module, or a holder of one
  lockstep::Mirrored<NoModule> none({});
#elif WRONG == 4
  // says: Model has no public constructor that takes these args
  lockstep::Mirrored<Net> none({}, "wide", 3);
#elif WRONG == 17
  // says: a reference that is not const binds to a variable, not to a temporary
  lockstep::Mirrored<Written> none({}, 3);
#elif WRONG == 18
  // says: factory() returns a std::shared_ptr<Model>, or a holder
  lockstep::Mirrored<Net>::from({}, [] { return Net(3); });
#else
  lockstep::Mirrored<Net> towers({}, 784);
#endif
#if WRONG == 0
  towers.step(batches.front(), mean);
  towers.step(towers.stage(batches.front()), mean);
  towers.compute(batches.front(), mean);
  towers.evaluate(batches, accuracy);
  towers.map(batches, accuracy);
  towers.gradients(batches.front(), mean, {.update = "*.weight"});
  towers.step(
      batches.front(), [](Net& net, const Batch& shard) { return net.forward(shard.data); },
      [](const torch::Tensor& rows) { return rows.sum(); });
#elif WRONG == 1
  // says: offer tensors() or shard(i, n), see lockstep/batch.h
  towers.step(Unknown{}, [](Net&, const Unknown& shard) { return shard.data; });
#elif WRONG == 2
  // says: offer tensors() or shard(i, n), see lockstep/batch.h
  const auto staged = towers.stage(Copied{});
#elif WRONG == 5
  // says: Lockstep calls loss(model, shard) with (Model&, const Batch&)
  towers.step(batches.front(), [](Net& net, Batch& shard) { return mean(net, shard); });
#elif WRONG == 6
  // says: A loss returns a torch::Tensor, the mean over the shard's rows
  towers.compute(batches.front(),
                 [](Net& net, const Batch& shard) { return mean(net, shard).item<double>(); });
#elif WRONG == 7
  // says: batches must be a range with begin() and end()
  towers.evaluate(batches.front(), accuracy);
#elif WRONG == 8
  // says: Lockstep calls metric(model, batch) with (Model&, const Batch&)
  towers.evaluate(batches, [](const Batch&) { return lockstep::Metrics{}; });
#elif WRONG == 9
  // says: A metric returns a type with a default constructor and +=
  towers.evaluate(batches, [](Net& net, const Batch& batch) { return mean(net, batch); });
#elif WRONG == 10
  // says: head takes what rows returns by const reference
  towers.step(
      batches.front(), [](Net& net, const Batch& shard) { return net.forward(shard.data); },
      [](const Batch& rows) { return rows.data.sum(); });
#elif WRONG == 11
  // says: rows returns a tensor, or a container of tensors
  towers.step(batches.front(),
              lockstep::whole_batch([](Net&, const Batch&) { return Unknown{}; },
                                    [](const Unknown& rows) { return rows.data.sum(); }));
#elif WRONG == 12
  // says: Lockstep calls function(model, batch) with (Model&, const Batch&)
  towers.map(batches, [](const Batch& batch) { return batch; });
#elif WRONG == 13
  // says: pass list(v) if each item is one row, whole(v) if it is the same in every shard
  using Lengths = std::pair<torch::Tensor, std::vector<int> >;
  towers.step(Lengths{}, [](Net&, const Lengths& shard) { return shard.first; });
#elif WRONG == 14
  // says: Nothing in this batch type has rows to cut
  towers.step(std::pair(1, 2.0), [](Net&, const auto&) { return torch::Tensor(); });
#elif WRONG == 15
  // says: list(items): an item holds a type that Lockstep cannot copy to a device
  lockstep::list(std::vector<std::shared_ptr<Unknown> >{});
#elif WRONG == 16
  // says: along(dim, x): x must be a tensor, or made of tensors only
  lockstep::along(1, 3);
#endif
}
