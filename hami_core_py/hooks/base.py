"""Base class of every backend's settings."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class BackendSettings(BaseModel):
    """One backend's section of the device configuration.

    Fields are written ``snake_case`` or, as v2.10 spells them, ``camelCase``; unknown keys are errors. A section that is a
    list is read as ``{"configs": [...]}``.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )
