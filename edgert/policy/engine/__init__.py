"""Inference engines behind one seam: ONNX Runtime's providers by name, its plug-in packages, and Iluvatar's IxRT."""

from edgert.policy.engine.opening import open_engine, provider_of
from edgert.policy.engine.protocol import Buffer, Engine, Node, Placement, Tensor

__all__ = ["Buffer", "Engine", "Node", "Placement", "Tensor", "open_engine", "provider_of"]
