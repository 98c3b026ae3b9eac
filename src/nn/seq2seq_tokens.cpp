#include <lockstep/error.h>
#include <lockstep/nn/seq2seq.h>

#include <lockstep/kernels/products.h>

namespace lockstep::nn {
namespace {

using torch::Tensor;

/// The model in evaluation mode, then as it was. It sets no flag that is as it should be, so towers
/// in evaluation may share a model.
class InEvaluation {
 public:
  explicit InEvaluation(Seq2Seq& model) : model_(model), training_(model.is_training()) {
    if (training_) model_.eval();
  }
  ~InEvaluation() {
    if (training_) model_.train();
  }
  InEvaluation(const InEvaluation&) = delete;
  InEvaluation& operator=(const InEvaluation&) = delete;

 private:
  Seq2Seq& model_;
  bool training_;
};

class Seq2SeqTokens : public text::TokenModel {
 public:
  Seq2SeqTokens(Seq2Seq& model, const Tensor& source, const Tensor& lengths)
      : model_(model), output_(model.output_weight.detach().t()) {
    const torch::NoGradGuard no_gradients;
    const InEvaluation evaluation(model_);
    all_ = model_.encode(source, lengths);
    encoded_ = all_;
    source_of_ = torch::arange(source.size(0), lengths.options());
    decoded_ = model_.begin(all_);
  }

  std::int64_t rows() const override { return source_of_.size(0); }

  Tensor next(const Tensor& tokens) override {
    check(tokens.dim() == 1 && tokens.size(0) == rows(), "each row is given one token");
    const torch::NoGradGuard no_gradients;
    const InEvaluation evaluation(model_);
    model_.append(encoded_, decoded_, tokens.to(source_of_.device()));
    const Tensor& bias = model_.output_bias;
    const Tensor logits = bias.expand({rows(), bias.size(0)}).clone();
    output_.add_product(decoded_.features.to(bias.scalar_type()), logits);
    return logits.to(torch::kFloat32).log_softmax(-1);
  }

  void select(const Tensor& kept) override {
    const torch::NoGradGuard no_gradients;
    const Tensor rows = kept.to(source_of_.device());
    const auto keep = [&](Tensor& tensor) {
      if (tensor.defined()) tensor = tensor.index_select(0, rows);
    };
    for (CellState& state : decoded_.state)
      for (Tensor& part : state) keep(part);
    keep(decoded_.features);
    keep(decoded_.attention);
    const Tensor source_of = source_of_.index_select(0, rows);
    if (torch::equal(source_of, source_of_)) return;  // hypotheses changed places in their beams
    source_of_ = source_of;
    encoded_.outputs = all_.outputs.index_select(0, source_of);
    encoded_.keys = model_.options.attention == Attention::dot
                        ? encoded_.outputs
                        : all_.keys.index_select(0, source_of);
    encoded_.padding = all_.padding.index_select(0, source_of);
  }

  Tensor attention() const override {
    return decoded_.attention.defined() ? decoded_.attention.to(torch::kFloat32) : Tensor();
  }

 private:
  Seq2Seq& model_;
  const kernels::PackedMatrix output_;  // laid out once for all tokens
  Seq2Seq::Encoded all_, encoded_;      // of each source, and of each row
  Tensor source_of_;                    // int64 [rows]
  Seq2Seq::Decoded decoded_;
};

}  // namespace

std::unique_ptr<text::TokenModel> token_model(Seq2Seq& model, const Tensor& source,
                                              const Tensor& lengths) {
  return std::make_unique<Seq2SeqTokens>(model, source, lengths);
}

}  // namespace lockstep::nn
