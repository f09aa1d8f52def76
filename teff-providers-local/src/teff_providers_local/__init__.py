"""Teff provider that runs a small model in this process: no server, no key.

`LocalProvider` answers with llama.cpp, through the package ``xllamacpp``, on one thread by default
and on a model file that pip can install. A workflow names it ``local``::

    default_provider: local
    default_model: smollm2-135m-instruct
"""

from teff_providers_local.provider import LocalProvider

__all__ = ["LocalProvider"]

__version__ = "0.1.0"
