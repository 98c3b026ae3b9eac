"""JAX: shard_map over N host devices, gradients averaged by pmean, optax.

N devices use N cores: the process is bound to N × threads cores before XLA
starts (common.parse), and XLA makes as many worker threads as it is given cores.
(--xla_cpu_multi_thread_eigen=false no longer holds a device to one thread.)
"""

import itertools
import os

import common

args = common.parse(common.parser(__doc__, common.LABELLED))
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + f" --xla_force_host_platform_device_count={args.devices}"
)
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402


def dense(x, layer):
    kernel, bias = layer
    return x @ kernel + bias


def lstm(layer, x, state):
    """Time-major; all input projections are one product, ahead of the scan."""
    kernel, recurrent, bias = layer

    def cell(state, projected):
        h, c = state
        i, f, g, o = jnp.split(projected + h @ recurrent, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    state, outputs = lax.scan(cell, state, x @ kernel + bias)
    return outputs, state


def chat(params, norms, source, target):
    def stack(side, x, states):
        for index, state in enumerate(states):
            x, states[index] = lstm(params[f"{side}{index}"], x, state)
        return x, states

    zeros = jnp.zeros((source.shape[0], common.HIDDEN))
    states = [(zeros, zeros), (zeros, zeros)]
    memory, states = stack("encoder", params["source"][0][source.T], states)
    output, _ = stack("decoder", params["target"][0][target.T], states)
    query = output @ params["attention"][0]
    scores = jnp.einsum("qbh,kbh->bqk", query, memory)
    context = jnp.einsum("bqk,kbh->qbh", jax.nn.softmax(scores), memory)
    mixed = jnp.concatenate([context, output], -1).swapaxes(0, 1)
    mixed = jnp.tanh(dense(mixed, params["combine"]))
    return dense(mixed, params["logits"]), norms


def mlp(params, norms, x):
    *hidden, last = params.values()
    for layer in hidden:
        x = jax.nn.relu(dense(x, layer))
    return dense(x, last), norms


def convolution(x, kernel, stride):
    border = kernel.shape[0] // 2
    return lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        [(border, border)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def depthwise(x, kernel, stride):
    """Sum of shifted products: many times faster on CPU than grouped convolution."""
    batch, height, width, channels = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))

    def shifted(i, j):
        end = (batch, i + height - stride + 1, j + width - stride + 1, channels)
        return lax.slice(padded, (0, i, j, 0), end, (1, stride, stride, 1))

    return sum(shifted(i, j) * kernel[i, j, :, 0] for i in range(3) for j in range(3))


class Normed:
    """Convolutions with batch norm; gathers the new moving statistics."""

    def __init__(self, params, norms):
        self.params, self.norms = params, dict(norms)

    def __call__(self, x, name, stride=1, operation=convolution):
        x = operation(x, *self.params[name], stride)
        gamma, beta = self.params[name + "_norm"]
        mean = x.mean((0, 1, 2))
        variance = jnp.square(x).mean((0, 1, 2)) - jnp.square(mean)
        self.norms[name] = jax.tree.map(
            lambda old, new: common.NORM_DECAY * old + (1 - common.NORM_DECAY) * new,
            self.norms[name],
            (mean, variance),
        )
        scale = gamma * lax.rsqrt(variance + common.NORM_EPSILON)
        return x * scale + (beta - mean * scale)


def cifar(params, norms, x):
    conv = Normed(params, norms)
    x = jax.nn.relu(conv(x, "stem"))
    for name, channels, width, stride in common.residual_blocks():
        y = jax.nn.relu(conv(x, name + "_conv0", stride))
        y = conv(y, name + "_conv1")
        if channels != width:
            x = conv(x, name + "_skip", stride)
        x = jax.nn.relu(x + y)
    return dense(x.mean((1, 2)), params["logits"]), conv.norms


def mobilenet(params, norms, x):
    conv = Normed(params, norms)
    x = jax.nn.relu6(conv(x, "stem", 2))
    for name, _, _, stride in common.separable_blocks():
        x = jax.nn.relu6(conv(x, name + "_depth", stride, depthwise))
        x = jax.nn.relu6(conv(x, name + "_point"))
    return dense(x.mean((1, 2)), params["logits"]), conv.norms


MODELS = {"chat": chat, "cifar": cifar, "mlp": mlp, "mobilenet": mobilenet}


def make_optimizer(workload):
    if workload in common.ADAM:
        adam = optax.adam(common.ADAM[workload])
        if workload == "chat":
            return optax.chain(optax.clip_by_global_norm(common.CLIP), adam)
        return adam
    if workload in common.MOMENTUM:
        return optax.sgd(*common.MOMENTUM[workload])
    rate, decay, momentum, epsilon = common.RMSPROP[workload]
    return optax.rmsprop(
        rate, decay, epsilon, eps_in_sqrt=False, momentum=momentum
    )


def main():
    mesh = jax.make_mesh((args.devices,), ("device",))
    whole, split = PartitionSpec(), PartitionSpec("device")
    model, optimizer = MODELS[args.workload], make_optimizer(args.workload)

    def loss_of(params, norms, batch):
        *inputs, labels = batch
        logits, norms = model(params, norms, *inputs)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return loss.mean(), norms

    def gradients_of(params, norms, batch):
        return jax.value_and_grad(loss_of, has_aux=True)(params, norms, batch)

    def train(params, norms, state, batch):
        (loss, norms), gradients = lax.pmean(
            gradients_of(params, norms, batch), "device"
        )
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), norms, state, loss

    def compute_only(params, norms, batch):
        result = gradients_of(params, norms, batch)
        return jax.tree.map(lambda leaf: leaf[None], result)  # one for each device

    def mapped(function, inputs, outputs):
        return jax.shard_map(
            function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False
        )

    step_fn = jax.jit(
        mapped(train, (whole, whole, whole, split), (whole,) * 4),
        donate_argnums=(0, 1, 2),
    )
    compute_fn = jax.jit(mapped(compute_only, (whole, whole, split), split))

    weights = common.weights(args.workload)
    norms = {
        name.removesuffix("_norm"): (0 * arrays[0], 1 + 0 * arrays[0])
        for name, arrays in weights.items()
        if name.endswith("_norm")
    }
    everywhere = NamedSharding(mesh, whole)
    params, norms = jax.device_put((weights, norms), everywhere)
    state = jax.jit(optimizer.init, out_shardings=everywhere)(params)
    batches = itertools.cycle(
        jax.device_put(common.batches(args.workload), NamedSharding(mesh, split))
    )

    def step():
        nonlocal params, norms, state
        params, norms, state, loss = step_fn(params, norms, state, next(batches))
        return loss.block_until_ready()

    def compute():
        jax.block_until_ready(compute_fn(params, norms, next(batches)))

    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    common.report(args, "jax", count, common.benchmark(args, step, compute))


if __name__ == "__main__":
    main()
