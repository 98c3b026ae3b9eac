#pragma once

// The losses of our own models in stages, for Pipeline: the bits are those of the whole loss.
//
//   lockstep::Pipeline<lockstep::nn::Seq2Seq> towers({..., .stages = 3}, options);
//   auto report = towers.step(batch, lockstep::nn::seq2seq_stages(loss_options));

#include <lockstep/nn/convnet.h>
#include <lockstep/nn/resnet.h>
#include <lockstep/nn/seq2seq.h>
#include <lockstep/nn/ssd.h>
#include <lockstep/pipeline.h>
#include <lockstep/sequential_stages.h>

#include <utility>

namespace lockstep::nn {

/// Three stages of sequence_loss: encode, decode, project.
inline auto seq2seq_stages(const Seq2SeqLossOptions& options = {}) {
  return stages(encode_part, decode_part, [options](Seq2Seq& model, const LabelledFeatures& in) {
    return project_part(model, in, options);
  });
}

/// Two stages of it: encode; decode and project.
inline auto seq2seq_halves(const Seq2SeqLossOptions& options = {}) {
  return stages(encode_part, [options](Seq2Seq& model, const text::SequenceBatch& batch,
                                       const Seq2Seq::Encoded& encoded) {
    return project_part(model, decode_part(model, batch, encoded), options);
  });
}

/// Two stages of ssd_loss: the backbone; all else. For batches with images, labels and codes, such
/// as vision::DetectionBatch.
inline auto ssd_stages(const SsdLossOptions& options = {}) {
  return stages([](Ssd& model, const auto& batch) { return model.maps(batch.images); },
                [options](Ssd& model, const auto& batch, const BackboneMaps& maps) {
                  return ssd_loss(model.outputs(maps), model.anchors, batch.labels, batch.codes,
                                  options);
                });
}

/// Any number of stages of a ConvNet or a ResNet, cut between its layers or blocks:
/// `images(shard)` goes in, `loss(logits, shard)` is a Loss, or a tensor, the mean over rows.
template <class Model, class Batch, class Images, class LossFn>
LayerStages<Model, Batch> classifier_stages(Images images, LossFn loss, Cut cut = Cut::measured()) {
  LayerStages<Model, Batch> stages;
  stages.count = [](Model& model) { return model.chain_length(); };
  stages.input = [images](const Batch& shard) -> torch::Tensor { return images(shard); };
  stages.run = [](Model& model, std::size_t layer, const torch::Tensor& x) {
    return model.run_layer(layer, x);
  };
  stages.head = [loss](Model& model, const torch::Tensor& out, const Batch& shard) {
    return detail::loss_of(loss(model.head(out), shard));
  };
  stages.cut = std::move(cut);
  return stages;
}

template <class Batch, class Images, class LossFn>
LayerStages<ResNet, Batch> resnet_stages(Images images, LossFn loss, Cut cut = Cut::measured()) {
  return classifier_stages<ResNet, Batch>(std::move(images), std::move(loss), std::move(cut));
}

}  // namespace lockstep::nn
