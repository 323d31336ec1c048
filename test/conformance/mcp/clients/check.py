"""Drives the MCP servers with the official SDK for Python, as python.ts configures it. Ends with an error if anything fails."""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlencode, urlparse

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

SETTINGS = json.loads(sys.argv[1])
REDIRECT = "http://127.0.0.1:9/callback"


class Storage:
    """Tokens and registration of the client, in memory."""

    def __init__(self):
        self.tokens = None
        self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class User:
    """A person whose browser opens the pages of the issuer."""

    def __init__(self):
        self.scopes = []
        self.redirected = {}

    async def open(self, url):
        self.scopes.append(parse_qs(urlparse(url).query).get("scope", [""])[0])
        async with httpx2.AsyncClient(timeout=30) as client:
            answer = await client.get(f"{SETTINGS['browser']}?{urlencode({'url': url})}")
        assert answer.status_code == 200, answer.text
        self.redirected = {name: values[0] for name, values in parse_qs(urlparse(answer.text).query).items()}

    async def code(self):
        names = ("code", "state", "iss")
        return AuthorizationCodeResult(**{name: self.redirected.get(name) for name in names})


def sign_in(url):
    user, storage = User(), Storage()
    metadata = OAuthClientMetadata(
        client_name="Python client", redirect_uris=[REDIRECT], token_endpoint_auth_method="none"
    )
    auth = OAuthClientProvider(
        url, metadata, storage, user.open, user.code, client_metadata_url=SETTINGS["document"]
    )
    return user, storage, auth


async def text_of(client, name, arguments):
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    # Hosts show their model the text or the structured content: both have the data.
    data = {name: one for name, one in result.structured_content.items() if name != "_untrusted"}
    assert json.loads(result.content[0].text.split("\n")[2]) == data, result
    return json.dumps(data)


async def use_desk():
    user, storage, auth = sign_in(SETTINGS["desk"])
    async with create_mcp_http_client(auth=auth) as http:
        transport = streamable_http_client(SETTINGS["desk"], http_client=http)
        async with Client(transport, mode=SETTINGS["mode"]) as client:
            await check_tools(client)
            if SETTINGS["document"] is not None:
                assert storage.client.client_id == SETTINGS["document"], storage.client
            await check_step_up(client, user)
            await check_refresh(client, user, storage, auth)
            await check_content(client)
            await check_execution(client)


async def check_tools(client):
    names = [tool.name for tool in (await client.list_tools()).tools]
    for name in ("orders_list", "orders_create", "call_quote", "run_deliver", "execution_status"):
        assert name in names, (name, names)
    assert "A1" in await text_of(client, "orders_list", {})
    assert json.loads(await text_of(client, "call_quote", {"cents": 1})) == {"price": 501}
    wrong = await client.call_tool("orders_list", {"status": "no such"})
    assert wrong.is_error and "late" in wrong.content[0].text, wrong


async def check_step_up(client, user):
    before = len(user.scopes)
    assert "P1" in await text_of(client, "orders_create", {"number": "P1", "status": "open"})
    assert len(user.scopes) == before + 1 and "mcp:desk:orders_create" in user.scopes[-1], user.scopes


async def check_refresh(client, user, storage, auth):
    before, asked = storage.tokens, len(user.scopes)
    auth.context.token_expiry_time = 1
    assert "A1" in await text_of(client, "orders_list", {})
    assert storage.tokens.access_token != before.access_token
    assert storage.tokens.refresh_token != before.refresh_token
    assert len(user.scopes) == asked, user.scopes


async def check_content(client):
    uris = [str(one.uri) for one in (await client.list_resources()).resources]
    assert "guide://refunds" in uris, uris
    templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
    assert any(one.startswith("tenon://orders/") for one in templates), templates
    for uri, text in (("guide://refunds", "five days"), (SETTINGS["order"], "A1")):
        assert text in (await client.read_resource(uri)).model_dump_json(), uri
    assert "remind" in [one.name for one in (await client.list_prompts()).prompts]
    prompt = await client.get_prompt("remind", {"customer": "Ann"})
    assert "Remind Ann." in prompt.model_dump_json(), prompt


async def check_execution(client):
    started = json.loads(await text_of(client, "run_deliver", {}))
    assert started["status"] != "completed", started
    execution = {"execution": started["execution"]}
    for _ in range(100):
        if json.loads(await text_of(client, "execution_status", execution))["status"] == "completed":
            break
        await asyncio.sleep(0.2)
    assert '"delivered": true' in await text_of(client, "execution_result", execution)


async def use_platform():
    _, _, auth = sign_in(SETTINGS["platform"])
    async with create_mcp_http_client(auth=auth) as http:
        transport = streamable_http_client(SETTINGS["platform"], http_client=http)
        async with Client(transport, mode=SETTINGS["mode"]) as client:
            assert "flow_create" in [tool.name for tool in (await client.list_tools()).tools]
            workspace = {"workspace_id": SETTINGS["workspace"]}
            assert not (await client.call_tool("flow_list", workspace)).is_error
            refused = await client.call_tool("flow_create", {**workspace, "source": "do: []"})
            assert refused.is_error and "flow_invalid" in refused.content[0].text, refused


async def main():
    await use_desk()
    await use_platform()


asyncio.run(main())
