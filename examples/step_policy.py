"""Load a policy and step it, in ten lines: numbers in, numbers out."""

import numpy as np

import edgert

loaded = edgert.load_policy("quadruped")  # or the path of an .onnx with a contract inside or beside it
with edgert.OnnxPolicy(loaded, device="cpu") as policy:
    for name, array in policy.obs.items():  # arrays made for the policy, by ONNX input name
        print(f"input {name}: {array.dtype}{list(array.shape)}, {loaded.contract.inputs[name].terms[0].name} first")
        array[:] = np.zeros_like(array)
    policy.act(policy.obs, policy.out)
    targets = np.array(loaded.contract.action.offset) + np.array(loaded.contract.action.scale) * policy.action[0]
    print(dict(zip(loaded.contract.action.joints, targets.round(3).tolist(), strict=True)))
