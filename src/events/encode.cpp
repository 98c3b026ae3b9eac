#include "events/encode.h"

#include <bit>
#include <protozero/pbf_writer.hpp>

#include "base/utf8.h"
#include "events/histogram.h"
#include "events/wire.h"

namespace lockstep::events {
namespace {

using protozero::pbf_writer;

std::string event(Stamp at, unsigned field, const std::string& content) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_double(wire::Event::wall_time, at.wall_time);
  writer.add_int64(wire::Event::step, at.step);
  writer.add_bytes(field, content);
  return bytes;
}

/// An event with one summary value: its tag and what `fill` writes after it.
template <class Fill>
std::string summary_event(Stamp at, const std::string& tag, const Fill& fill) {
  std::string summary;
  {
    pbf_writer writer(summary);
    pbf_writer value(writer, wire::Summary::value);
    value.add_string(wire::Value::tag, base::valid_utf8(tag));
    fill(value);
  }
  return event(at, wire::Event::summary, summary);
}

void add_metadata(pbf_writer& value, const std::string& plugin, const std::string& content,
                  wire::DataClass data_class) {
  pbf_writer metadata(value, wire::Value::metadata);
  {
    pbf_writer data(metadata, wire::Metadata::plugin_data);
    data.add_string(wire::PluginData::plugin_name, plugin);
    data.add_bytes(wire::PluginData::content, content);
  }
  metadata.add_enum(wire::Metadata::data_class, data_class);
}

void add_shape(pbf_writer& tensor, std::initializer_list<std::int64_t> sizes) {
  pbf_writer shape(tensor, wire::Tensor::shape);
  for (const std::int64_t size : sizes) {
    pbf_writer dimension(shape, wire::Shape::dimension);
    dimension.add_int64(wire::Dimension::size, size);
  }
}

/// The hparams plugin reads metadata only; the tensor must be there, and empty.
std::string hparams_event(Stamp at, const char* tag, unsigned field, const std::string& content) {
  std::string data;
  pbf_writer(data).add_bytes(field, content);
  return summary_event(at, tag, [&](pbf_writer& value) {
    add_metadata(value, "hparams", data, wire::data_tensor);
    pbf_writer tensor(value, wire::Value::tensor);
    tensor.add_enum(wire::Tensor::type, wire::type_float);
    add_shape(tensor, {0});
  });
}

wire::HParamType type_of(const HyperParameters::mapped_type& value) {
  constexpr wire::HParamType kTypes[] = {wire::hparam_bool, wire::hparam_float64,
                                         wire::hparam_string};
  return kTypes[value.index()];
}

void add_attribute(pbf_writer& node, const std::string& name, const std::string& text) {
  pbf_writer attribute(node, wire::Node::attribute);
  attribute.add_string(wire::MapEntry::key, base::valid_utf8(name));
  pbf_writer value(attribute, wire::MapEntry::value);
  value.add_bytes(wire::AttributeValue::bytes, base::valid_utf8(text));
}

}  // namespace

std::string encode_file_version(double wall_time) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_double(wire::Event::wall_time, wall_time);
  writer.add_string(wire::Event::file_version, "brain.Event:2");
  return bytes;
}

std::string encode_restart(Stamp at) {
  std::string log;
  pbf_writer(log).add_enum(wire::SessionLog::status, wire::session_log_start);
  return event(at, wire::Event::session_log, log);
}

std::string encode_scalar(Stamp at, const std::string& tag, double scalar) {
  return summary_event(at, tag, [&](pbf_writer& value) {
    value.add_float(wire::Value::simple_value, static_cast<float>(scalar));
  });
}

std::string encode_histogram(Stamp at, const std::string& tag, std::span<const float> values) {
  const std::vector<Bucket> buckets = histogram(values);
  static_assert(sizeof(Bucket) == 3 * sizeof(double));
  static_assert(std::endian::native == std::endian::little, "a tensor's content is little-endian");
  return summary_event(at, tag, [&](pbf_writer& value) {
    add_metadata(value, "histograms", "", wire::data_tensor);
    pbf_writer tensor(value, wire::Value::tensor);
    tensor.add_enum(wire::Tensor::type, wire::type_double);
    add_shape(tensor, {static_cast<std::int64_t>(buckets.size()), 3});
    tensor.add_bytes(wire::Tensor::content, reinterpret_cast<const char*>(buckets.data()),
                     buckets.size() * sizeof(Bucket));
  });
}

std::string encode_image(Stamp at, const std::string& tag, const Image& image) {
  return summary_event(at, tag, [&](pbf_writer& value) {
    pbf_writer picture(value, wire::Value::image);
    picture.add_int32(wire::Picture::height, image.height);
    picture.add_int32(wire::Picture::width, image.width);
    picture.add_int32(wire::Picture::colorspace, image.channels);
    picture.add_bytes(wire::Picture::encoded, png(image));
  });
}

std::string encode_text(Stamp at, const std::string& tag, const std::string& markdown) {
  return summary_event(at, tag, [&](pbf_writer& value) {
    add_metadata(value, "text", "", wire::data_tensor);
    pbf_writer tensor(value, wire::Value::tensor);
    tensor.add_enum(wire::Tensor::type, wire::type_string);
    add_shape(tensor, {1});
    tensor.add_bytes(wire::Tensor::strings, base::valid_utf8(markdown));
  });
}

std::string encode_graph(Stamp at, const std::vector<GraphNode>& nodes) {
  std::string graph;
  pbf_writer writer(graph);
  for (const GraphNode& node : nodes) {
    pbf_writer one(writer, wire::Graph::node);
    one.add_string(wire::Node::name, base::valid_utf8(node.name));
    one.add_string(wire::Node::op, base::valid_utf8(node.op));
    for (const std::string& input : node.inputs)
      one.add_string(wire::Node::input, base::valid_utf8(input));
    for (const auto& [name, text] : node.attributes) add_attribute(one, name, text);
  }
  constexpr std::int32_t kProducer = 22;  // any graph of our days
  {
    pbf_writer versions(writer, wire::Graph::versions);
    versions.add_int32(wire::Versions::producer, kProducer);
  }
  return event(at, wire::Event::graph, graph);
}

std::string encode_experiment(Stamp at, const HyperParameters& chosen,
                              const std::vector<std::string>& metrics) {
  std::string experiment;
  pbf_writer writer(experiment);
  writer.add_double(wire::Experiment::time_created, at.wall_time);
  for (const auto& [name, value] : chosen) {
    pbf_writer info(writer, wire::Experiment::hparam);
    info.add_string(wire::HParamInfo::name, base::valid_utf8(name));
    info.add_enum(wire::HParamInfo::type, type_of(value));
  }
  for (const std::string& metric : metrics) {
    pbf_writer info(writer, wire::Experiment::metric);
    pbf_writer name(info, wire::MetricInfo::name);
    name.add_string(wire::MetricName::tag, base::valid_utf8(metric));
  }
  return hparams_event(at, "_hparams_/experiment", wire::HParams::experiment, experiment);
}

std::string encode_session_start(Stamp at, const HyperParameters& chosen) {
  std::string start;
  pbf_writer writer(start);
  for (const auto& [name, value] : chosen) {
    pbf_writer entry(writer, wire::SessionStart::hparams);
    entry.add_string(wire::MapEntry::key, base::valid_utf8(name));
    pbf_writer any(entry, wire::MapEntry::value);
    if (const bool* truth = std::get_if<bool>(&value)) any.add_bool(wire::Any::truth, *truth);
    if (const double* number = std::get_if<double>(&value))
      any.add_double(wire::Any::number, *number);
    if (const std::string* text = std::get_if<std::string>(&value))
      any.add_string(wire::Any::text, base::valid_utf8(*text));
  }
  writer.add_double(wire::SessionStart::start_time, at.wall_time);
  return hparams_event(at, "_hparams_/session_start_info", wire::HParams::session_start, start);
}

std::string encode_session_end(Stamp at, SessionEnd how) {
  std::string end;
  pbf_writer writer(end);
  writer.add_enum(wire::SessionEndInfo::status,
                  how == SessionEnd::success ? wire::status_success : wire::status_failure);
  writer.add_double(wire::SessionEndInfo::end_time, at.wall_time);
  return hparams_event(at, "_hparams_/session_end_info", wire::HParams::session_end, end);
}

}  // namespace lockstep::events
