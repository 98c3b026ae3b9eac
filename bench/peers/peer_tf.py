"""TensorFlow MirroredStrategy over N logical CPU devices, with Keras layers."""

import itertools
import os

import common

parser = common.parser(__doc__, common.LABELLED)
parser.add_argument(
    "--cross-device",
    choices=("default", "hierarchical", "reduction"),
    default="default",
    help="gradient exchange; the default on CPU devices is the ring collective",
)
args = common.parse(parser)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Off by default on this CPU; on, TensorFlow is up to twice as fast.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402


def chat():
    source = keras.Input((common.LENGTH,), dtype="int32")
    target = keras.Input((common.LENGTH,), dtype="int32")
    sizes = (common.VOCABULARY, common.EMBEDDING)
    memory, states = layers.Embedding(*sizes, name="source")(source), []
    for index in range(2):
        memory, *state = layers.LSTM(
            common.HIDDEN,
            return_sequences=True,
            return_state=True,
            name=f"encoder{index}",
        )(memory)
        states.append(state)
    output = layers.Embedding(*sizes, name="target")(target)
    for index, state in enumerate(states):
        output = layers.LSTM(
            common.HIDDEN, return_sequences=True, name=f"decoder{index}"
        )(output, initial_state=state)
    query = layers.Dense(common.HIDDEN, use_bias=False, name="attention")(output)
    context = layers.Attention(name="context")([query, memory])
    mixed = layers.Concatenate()([context, output])
    mixed = layers.Dense(common.HIDDEN, activation="tanh", name="combine")(mixed)
    logits = layers.Dense(common.VOCABULARY, name="logits")(mixed)
    return keras.Model([source, target], logits)


def mlp():
    x = inputs = keras.Input((common.MLP[0],))
    for index, width in enumerate(common.MLP[1:]):
        activation = "relu" if index < len(common.MLP) - 2 else None
        x = layers.Dense(width, activation=activation, name=f"dense{index}")(x)
    return keras.Model(inputs, x)


def normed(x, layer):
    return layers.BatchNormalization(
        momentum=common.NORM_DECAY,
        epsilon=common.NORM_EPSILON,
        name=layer.name + "_norm",
    )(layer(x))


def conv(x, name, width, size, stride=1):
    layer = layers.Conv2D(
        width, size, stride, padding="same", use_bias=False, name=name
    )
    return normed(x, layer)


def classifier(inputs, x, classes):
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x))


def cifar():
    inputs = keras.Input((common.CIFAR_SIZE, common.CIFAR_SIZE, 3))
    x = layers.ReLU()(conv(inputs, "stem", common.STEM, 3))
    for name, channels, width, stride in common.residual_blocks():
        y = layers.ReLU()(conv(x, name + "_conv0", width, 3, stride))
        y = conv(y, name + "_conv1", width, 3)
        if channels != width:
            x = conv(x, name + "_skip", width, 1, stride)
        x = layers.ReLU()(layers.Add()([x, y]))
    return classifier(inputs, x, common.CIFAR_CLASSES)


def mobilenet():
    inputs = keras.Input((common.MOBILE_SIZE, common.MOBILE_SIZE, 3))
    x = layers.ReLU(6.0)(conv(inputs, "stem", common.MOBILE_STEM, 3, 2))
    for name, _, width, stride in common.separable_blocks():
        depth = layers.DepthwiseConv2D(
            3, stride, padding="same", use_bias=False, name=name + "_depth"
        )
        x = layers.ReLU(6.0)(normed(x, depth))
        x = layers.ReLU(6.0)(conv(x, name + "_point", width, 1))
    return classifier(inputs, x, common.MOBILE_CLASSES)


def load(model, weights):
    """Copies the common initial weights by layer name."""
    for name, arrays in weights.items():
        variables = model.get_layer(name).trainable_variables
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array)


class ClippedAdam(keras.optimizers.Adam):
    """Clips by global norm after the replicas' gradients have been summed.

    (global_clipnorm would clip each replica's own gradients instead.)
    """

    def _all_reduce_sum_gradients(self, grads_and_vars):
        pairs = super()._all_reduce_sum_gradients(grads_and_vars)
        gradients, variables = zip(*pairs)
        gradients, _ = tf.clip_by_global_norm(gradients, common.CLIP)
        return list(zip(gradients, variables))


def make_optimizer(workload):
    if workload in common.ADAM:
        adam = ClippedAdam if workload == "chat" else keras.optimizers.Adam
        return adam(common.ADAM[workload], epsilon=1e-8)
    if workload in common.MOMENTUM:
        return keras.optimizers.SGD(*common.MOMENTUM[workload])
    return keras.optimizers.RMSprop(*common.RMSPROP[workload])


def main():
    # N devices use N cores: each op runs on one thread, N ops at a time.
    tf.config.threading.set_inter_op_parallelism_threads(args.devices)
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * args.devices,
    )
    exchange = {
        "default": lambda: None,
        "hierarchical": tf.distribute.HierarchicalCopyAllReduce,
        "reduction": tf.distribute.ReductionToOneDevice,
    }[args.cross_device]
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{index}" for index in range(args.devices)], exchange()
    )
    with strategy.scope():
        models = {"chat": chat, "cifar": cifar, "mlp": mlp, "mobilenet": mobilenet}
        model = models[args.workload]()
        load(model, common.weights(args.workload))
        variables = model.trainable_variables
        optimizer = make_optimizer(args.workload)
        optimizer.build(variables)

    shards = [
        common.batches(args.workload, rank, args.devices)
        for rank in range(args.devices)
    ]
    batches = itertools.cycle(
        strategy.experimental_distribute_values_from_function(
            lambda context: tuple(
                map(tf.constant, shards[context.replica_id_in_sync_group][index])
            )
        )
        for index in range(common.LABELINGS)
    )

    def forward_backward(batch):
        *inputs, labels = batch
        with tf.GradientTape() as tape:
            logits = model(inputs if len(inputs) > 1 else inputs[0], training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            )
            share = loss / args.devices  # the optimizer sums over the replicas
        return loss, tape.gradient(share, variables)

    def train(batch):
        loss, gradients = forward_backward(batch)
        optimizer.apply(gradients, variables)
        return loss

    @tf.function
    def step(batch):
        losses = strategy.run(train, (batch,))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, None)

    @tf.function
    def compute(batch):
        return strategy.run(forward_backward, (batch,))

    measured = common.benchmark(
        args, lambda: step(next(batches)).numpy(), lambda: compute(next(batches))
    )
    name = "tf-mirrored"
    if args.cross_device != "default":
        name += "-" + args.cross_device
    params = sum(variable.shape.num_elements() for variable in variables)
    common.report(args, name, params, measured)


if __name__ == "__main__":
    main()
