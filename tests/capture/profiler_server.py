"""A job with a profiler server, for the tests: python profiler_server.py PORT; ends when its stdin does."""

import sys
import threading
import time

import jax
import jax.numpy as jnp

jax.profiler.start_server(int(sys.argv[1]))
train_step = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.ones((128, 128))
train_step(x).block_until_ready()
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("serving", flush=True)
step = 0
while not over.is_set():
    with jax.profiler.StepTraceAnnotation("train", step_num=step):
        train_step(x).block_until_ready()
    step += 1
    time.sleep(0.005)
