"""Azure OpenAI: deployments, versions of the API, and a header of its own for the key."""

from __future__ import annotations

import os
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import attrs

from teff.errors import ConfigError
from teff.provider.http import join_url
from teff.provider.keys import check_base_url, url_repr
from teff_providers_openai.provider import OpenAIProvider

__all__ = ["AzureProvider"]

_ENDPOINT_ENV = "AZURE_OPENAI_ENDPOINT"


@attrs.define(kw_only=True, eq=False)
class AzureProvider(OpenAIProvider):
    """Azure OpenAI, with the options of `OpenAIProvider` and three more.

    Example::

        provider = AzureProvider(
            endpoint="https://example.openai.azure.com", deployment="my-gpt"
        )

    The key is that of ``AZURE_OPENAI_API_KEY``, sent as ``api-key``; it goes to hosts of Azure
    alone. A token of Entra goes with ``api_key``, ``auth_header="Authorization"`` and
    ``auth_prefix="Bearer "``.

    Args:
        endpoint: the address of the resource; by default that in ``AZURE_OPENAI_ENDPOINT``.
        deployment: the deployment that is asked; by default the model of each request is its name.
        api_version: such as ``2024-10-21``, for the addresses of single deployments. "" is the
            newer address ``/openai/v1``, which has no versions.
        base_url: a whole address instead of an endpoint, and then in its place, for a gateway.

    Raises:
        ConfigError: as `OpenAIProvider`; or neither an endpoint nor a base URL is given.
    """

    preset: str = attrs.field(default="azure", init=False)
    endpoint: str | None = attrs.field(default=None, repr=url_repr)
    deployment: str = ""
    api_version: str = ""
    _has_deployments: bool = attrs.field(default=False, init=False, repr=False)

    def _find_base_url(self) -> str:
        if self.base_url is not None:
            return _with_version(
                check_base_url(self.base_url, provider=self.name), self.api_version
            )
        endpoint = self.endpoint or os.environ.get(_ENDPOINT_ENV, "")
        if not endpoint:
            raise ConfigError(
                f"provider {self.name!r} needs the address of your Azure resource as endpoint.",
                hint=f"Set it in the declaration, or export {_ENDPOINT_ENV}=https://….",
                path="endpoint",
            )
        resource = check_base_url(endpoint, provider=self.name)
        resource = resource.removesuffix("/v1").removesuffix("/openai")
        self._has_deployments = bool(self.api_version)
        if not self._has_deployments:
            return join_url(resource, "/openai/v1")
        return _with_version(join_url(resource, "/openai"), self.api_version)

    def _model(self, model: str) -> str:
        return self.deployment or model

    def _chat_url(self, model: str) -> str:
        if not self._has_deployments:
            return join_url(self.base_url or "", self.chat_path)
        deployment = quote(self._model(model), safe="")
        return join_url(self.base_url or "", f"/deployments/{deployment}{self.chat_path}")


def _with_version(url: str, version: str) -> str:
    parts = urlsplit(url)
    if not version or "api-version" in parse_qs(parts.query):
        return url
    query = "&".join(filter(None, (parts.query, f"api-version={quote(version)}")))
    return urlunsplit(parts._replace(query=query))
