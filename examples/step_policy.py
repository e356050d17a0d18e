"""Load a policy and step it: numbers in, numbers out, and what they mean for the joints."""

import numpy as np

import edgert

loaded = edgert.load_policy("quadruped")  # or the path of an .onnx with a contract inside or beside it
with edgert.OnnxPolicy(loaded, device="cpu") as policy:
    for name, array in policy.obs.items():  # arrays made for the policy, by ONNX input name
        print(f"input {name}: {array.dtype}{list(array.shape)}, {loaded.contract.inputs[name].terms[0].name} first")
        array[:] = np.zeros_like(array)
    policy.act(policy.obs, policy.out)
    action = loaded.contract.action
    raw = policy.action[0] if action.clip is None else policy.action[0].clip(*action.clip)
    targets = np.array(action.offset) + np.array(action.scale) * raw  # "relative_position" adds the measured positions
    print(dict(zip(action.joints, targets.round(3).tolist(), strict=True)))
