#pragma once

// Field numbers and enum values of the messages in TensorBoard's .proto files that we write; the
// names are ours where theirs are unclear. A test reads them back with TensorBoard's own.

namespace lockstep::events::wire {

namespace Event {
enum : unsigned {
  wall_time = 1,
  step = 2,
  file_version = 3,
  graph = 4,
  summary = 5,
  session_log = 7
};
}
namespace SessionLog {
enum : unsigned { status = 1 };
}
namespace Summary {
enum : unsigned { value = 1 };
}
namespace Value {
enum : unsigned { tag = 1, simple_value = 2, image = 4, tensor = 8, metadata = 9 };
}
namespace Picture {  // Summary.Image
enum : unsigned { height = 1, width = 2, colorspace = 3, encoded = 4 };
}
namespace Metadata {
enum : unsigned { plugin_data = 1, data_class = 4 };
}
namespace PluginData {
enum : unsigned { plugin_name = 1, content = 2 };
}
namespace Tensor {
enum : unsigned { type = 1, shape = 2, content = 4, strings = 8 };
}
namespace Shape {
enum : unsigned { dimension = 2 };
}
namespace Dimension {
enum : unsigned { size = 1 };
}
namespace MapEntry {
enum : unsigned { key = 1, value = 2 };
}
namespace Graph {
enum : unsigned { node = 1, versions = 4 };
}
namespace Versions {
enum : unsigned { producer = 1 };
}
namespace Node {
enum : unsigned { name = 1, op = 2, input = 3, attribute = 5 };
}
namespace AttributeValue {
enum : unsigned { bytes = 2 };
}
namespace HParams {  // HParamsPluginData
enum : unsigned { experiment = 2, session_start = 3, session_end = 4 };
}
namespace Experiment {
enum : unsigned { time_created = 3, hparam = 4, metric = 5 };
}
namespace HParamInfo {
enum : unsigned { name = 1, type = 4 };
}
namespace MetricInfo {
enum : unsigned { name = 1 };
}
namespace MetricName {
enum : unsigned { tag = 2 };
}
namespace SessionStart {
enum : unsigned { hparams = 1, start_time = 5 };
}
namespace SessionEndInfo {
enum : unsigned { status = 1, end_time = 2 };
}
namespace Any {  // google.protobuf.Value
enum : unsigned { number = 2, text = 3, truth = 4 };
}

enum TensorType { type_float = 1, type_double = 2, type_string = 7 };
enum DataClass { data_tensor = 2 };
enum HParamType { hparam_string = 1, hparam_bool = 2, hparam_float64 = 3 };
enum Status { status_success = 1, status_failure = 2 };
enum SessionLogStatus { session_log_start = 1 };

}  // namespace lockstep::events::wire
