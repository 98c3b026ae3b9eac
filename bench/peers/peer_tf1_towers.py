"""Classic TensorFlow 1 towers: N copies of the graph on N logical CPU devices.

Variables live on /cpu:0 and are shared by the towers through variable scope
reuse; /cpu:0 also averages the gradients and applies them.
"""

import itertools
import os

import numpy as np

import common

args = common.parse(common.parser(__doc__, common.LABELLED))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Off by default on this CPU; on, TensorFlow is up to twice as fast.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

WEIGHTS = common.weights(args.workload)


def variable(name, shape, value=0.0, trainable=True):
    with tf.device("/cpu:0"):
        initial = tf.constant_initializer(value)
        return tf.get_variable(name, shape, tf.float32, initial, trainable=trainable)


def parameters(layer):
    """Variables of a layer, made by the first tower and reused by the others."""
    return [
        variable(f"{layer}/{index}", array.shape)
        for index, array in enumerate(WEIGHTS[layer])
    ]


def dense(x, layer):
    kernel, bias = parameters(layer)
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def norm(x, layer):
    gamma, beta = parameters(layer)
    y, *statistics = tf.nn.fused_batch_norm(
        x, gamma, beta, epsilon=common.NORM_EPSILON
    )
    for name, initial, value in zip(("mean", "variance"), (0.0, 1.0), statistics):
        moving = variable(f"{layer}/{name}", value.shape, initial, trainable=False)
        change = (1 - common.NORM_DECAY) * (moving - value)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, moving.assign_sub(change))
    return y


def conv(x, layer, stride=1):
    (kernel,) = parameters(layer)
    y = tf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME")
    return norm(y, layer + "_norm")


def depthwise(x, layer, stride):
    (kernel,) = parameters(layer)
    y = tf.nn.depthwise_conv2d(x, kernel, [1, stride, stride, 1], "SAME")
    return norm(y, layer + "_norm")


class StackedLSTM:
    """What MultiRNNCell and LSTMCell did; they are not available with Keras 3."""

    output_size = common.HIDDEN
    state_size = ((common.HIDDEN, common.HIDDEN),) * 2

    def __init__(self, side):
        self.layers = [parameters(f"{side}{index}") for index in range(2)]

    def zero_state(self, batch, dtype):
        zeros = tf.zeros([batch, common.HIDDEN], dtype)
        return ((zeros, zeros),) * 2

    def __call__(self, x, states, scope=None):
        after = []
        for (kernel, bias), (h, c) in zip(self.layers, states):
            gates = tf.matmul(tf.concat([x, h], 1), kernel)
            gates = tf.nn.bias_add(gates, bias)
            i, f, g, o = tf.split(gates, 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            x = tf.sigmoid(o) * tf.tanh(c)
            after.append((x, c))
        return x, tuple(after)


def chat(source, target):
    def embedded(ids, layer):
        return tf.nn.embedding_lookup(parameters(layer)[0], ids)

    encoder, decoder = StackedLSTM("encoder"), StackedLSTM("decoder")
    memory, states = tf.nn.dynamic_rnn(
        encoder, embedded(source, "source"), dtype=tf.float32
    )
    output, _ = tf.nn.dynamic_rnn(
        decoder, embedded(target, "target"), initial_state=states
    )
    flat = tf.reshape(output, [-1, common.HIDDEN])
    query = tf.reshape(tf.matmul(flat, parameters("attention")[0]), tf.shape(output))
    scores = tf.matmul(query, memory, transpose_b=True)
    context = tf.matmul(tf.nn.softmax(scores), memory)
    mixed = tf.concat([tf.reshape(context, [-1, common.HIDDEN]), flat], 1)
    return dense(tf.tanh(dense(mixed, "combine")), "logits")


def mlp(x):
    *hidden, last = WEIGHTS
    for layer in hidden:
        x = tf.nn.relu(dense(x, layer))
    return dense(x, last)


def cifar(x):
    x = tf.nn.relu(conv(x, "stem"))
    for name, channels, width, stride in common.residual_blocks():
        y = tf.nn.relu(conv(x, name + "_conv0", stride))
        y = conv(y, name + "_conv1")
        if channels != width:
            x = conv(x, name + "_skip", stride)
        x = tf.nn.relu(x + y)
    return dense(tf.reduce_mean(x, [1, 2]), "logits")


def mobilenet(x):
    x = tf.nn.relu6(conv(x, "stem", 2))
    for name, _, _, stride in common.separable_blocks():
        x = tf.nn.relu6(depthwise(x, name + "_depth", stride))
        x = tf.nn.relu6(conv(x, name + "_point"))
    return dense(tf.reduce_mean(x, [1, 2]), "logits")


MODELS = {"chat": chat, "cifar": cifar, "mlp": mlp, "mobilenet": mobilenet}


def average_gradients(towers):
    """Averages, over the towers, the gradient of each variable."""
    average = []
    for pairs in zip(*towers):
        gradients = [tf.expand_dims(gradient, 0) for gradient, _ in pairs]
        gradient = tf.reduce_mean(tf.concat(gradients, 0), 0)
        average.append((gradient, pairs[0][1]))
    return average


def make_optimizer(workload):
    if workload in common.ADAM:
        return tf.train.AdamOptimizer(common.ADAM[workload])
    if workload in common.MOMENTUM:
        return tf.train.MomentumOptimizer(*common.MOMENTUM[workload])
    return tf.train.RMSPropOptimizer(*common.RMSPROP[workload])


def main():
    for name, arrays in WEIGHTS.items():
        if len(arrays) == 3:  # LSTM: one kernel for input and state, as in TF 1
            kernel, recurrent, bias = arrays
            WEIGHTS[name] = (np.concatenate([kernel, recurrent]), bias)
    arrays = common.batches(args.workload)
    size = common.BATCH[args.workload] // args.devices
    with tf.device("/cpu:0"):
        optimizer = make_optimizer(args.workload)
        feeds = [tf.placeholder(array.dtype, array.shape) for array in arrays[0]]
        splits = zip(*[tf.split(feed, args.devices) for feed in feeds])
    towers, losses = [], []
    for index, (*inputs, labels) in enumerate(splits):
        with (
            tf.device(f"/cpu:{index}"),
            tf.variable_scope("model", reuse=index > 0),
            tf.name_scope(f"tower{index}"),
        ):
            logits = MODELS[args.workload](*inputs)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=tf.reshape(labels, [-1]), logits=logits
                )
            )
            losses.append(loss)
            towers.append(optimizer.compute_gradients(loss))
            if index == 0:
                updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.device("/cpu:0"):
        loss = tf.reduce_mean(tf.stack(losses))
        pairs = average_gradients(towers) if args.devices > 1 else towers[0]
        gradients, variables = zip(*pairs)
        if args.workload == "chat":
            gradients, _ = tf.clip_by_global_norm(gradients, common.CLIP)
        train = optimizer.apply_gradients(zip(gradients, variables))

    # N devices use N cores: each op runs on one thread, N ops at a time.
    config = tf.ConfigProto(
        device_count={"CPU": args.devices},
        inter_op_parallelism_threads=args.devices,
        intra_op_parallelism_threads=args.threads,
    )
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        with tf.variable_scope("model", reuse=True):
            for layer, arrays_of_layer in WEIGHTS.items():
                for target, array in zip(parameters(layer), arrays_of_layer):
                    target.load(array, session)
        batches = itertools.cycle(
            dict(zip(feeds, batch, strict=True)) for batch in arrays
        )
        local = [loss] + [
            part.op
            for tower in towers
            for part in tf.nest.flatten([g for g, _ in tower], expand_composites=True)
        ]
        measured = common.benchmark(
            args,
            lambda: session.run([loss, train, updates], next(batches))[0],
            lambda: session.run(local, next(batches)),
        )
    params = sum(v.shape.num_elements() for v in tf.trainable_variables())
    common.report(args, "tf1-towers", params, measured)


if __name__ == "__main__":
    main()
