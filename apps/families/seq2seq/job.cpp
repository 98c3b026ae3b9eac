// What the family `seq2seq` makes of a recipe.

#include <lockstep/input.h>
#include <lockstep/nn/stages.h>
#include <lockstep/text/evaluation.h>

#include "families/seq2seq/data.h"
#include "families/seq2seq/family.h"
#include "families/seq2seq/family_commands.h"
#include "families/seq2seq/model.h"
#include "families/seq2seq/service.h"
#include "family_program.h"
#include "on_strategy.h"

namespace lockstep::apps {
namespace {

template <class S>
AnyLoss<S, text::SequenceBatch> loss_for(const Recipe& recipe, const nn::Seq2SeqLossOptions& loss) {
  if constexpr (kInStages<S>) {
    if (recipe.pipeline.stages == 2) return nn::seq2seq_halves(loss);
    return nn::seq2seq_stages(loss);
  } else {
    return [loss](nn::Seq2Seq& model, const text::SequenceBatch& shard) {
      return nn::sequence_loss(model, shard, loss);
    };
  }
}

std::unique_ptr<Job> seq2seq_job(const Recipe& recipe, MirroredOptions options,
                                 const JobFiles& files) {
  const auto& its = own<Seq2SeqRecipe>(recipe);
  const TextData data = text_data(recipe, files);
  const nn::Seq2SeqLossOptions loss{.label_smoothing = its.network.label_smoothing,
                                    .samples = its.network.samples};
  const input::Prefetch ahead{.depth = recipe.data.prefetch, .workers = recipe.data.workers};
  input::Prefetch once = ahead;
  once.epochs = 1;
  const nn::Seq2SeqOptions shape = model_options(its.network, data.tokens->size());
  const auto use = [&]<class S>(std::unique_ptr<S> strategy) {
    auto job = std::make_unique<StrategyJob<S, text::SequenceBatch>>(
        std::move(strategy), input::prefetch(data.train, ahead), loss_for<S>(recipe, loss),
        data.train.size());
    job->add_file(kTokensFile, data.tokens->bytes());
    const text::EvaluationOptions how{.search = search_options(its.decode),
                                      .decoded = its.decode.tested,
                                      .batch_rows = recipe.data.test_batch,
                                      .cut = its.text.cut};
    const bool with_bleu = recipe.evaluate.metric == "bleu";
    job->add_set(
        data.held_out ? "test" : "train", data.test.size(),
        [=, test = data.test] { return input::prefetch(test, once); },
        text::Evaluator(data.tokens, data.test_pairs, data.test.buckets(), how),
        [=](const text::Evaluated& result) { return text::summarise(result, with_bleu); });
    return job;
  };
  return on_strategy<nn::Seq2Seq>(recipe, std::move(options), use, shape);
}

}  // namespace

FamilyProgram Seq2SeqFamily::program() {
  return {.make_job = seq2seq_job,
          .add_commands =
              [](CLI::App& app, Run& run) {
                add_chat(app, run);
                add_translate(app, run);
              },
          .fixed_fields = {"text.tokens", "text.vocabulary"},
          .make_service = text_service};
}

}  // namespace lockstep::apps
