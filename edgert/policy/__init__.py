"""A trained policy: an ONNX network plus its contract, running on a device."""

from edgert.policy.load import LoadedPolicy, load_policy
from edgert.policy.network import OnnxNetwork
from edgert.policy.onnx_model import OnnxModel
from edgert.policy.onnx_policy import OnnxPolicy, Policy

__all__ = ["LoadedPolicy", "OnnxModel", "OnnxNetwork", "OnnxPolicy", "Policy", "load_policy"]
