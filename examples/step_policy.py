"""Load a policy and step it: numbers in, numbers out, and what they mean for the joints."""

import numpy as np

import edgert
from edgert.contract.action import action_map

loaded = edgert.load_policy("quadruped")  # or the path of an .onnx with a contract inside or beside it
with edgert.OnnxPolicy(loaded, device="cpu") as policy:
    for name, array in policy.obs.items():  # arrays made for the policy, by ONNX input name
        print(f"input {name}: {array.dtype}{list(array.shape)}, {loaded.contract.inputs[name].terms[0].name} first")
        array[:] = np.zeros_like(array)
    policy.act(policy.obs, policy.out)
    action, raw = loaded.contract.action, policy.action.astype(np.float64)
    targets = action_map(action, raw, np).target(raw, np)  # relative ones also take the measured positions
    print(dict(zip(action.joints, targets[0].round(3).tolist(), strict=True)))
