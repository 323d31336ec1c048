/**
 * The hosts of agents that docs/mcp.md names, and others that are often used: how each registers, signs in and reads results. The values are
 * those of public issue trackers, documentation and sources of November 2026; ports and names that a host chooses at random are fixed here.
 */

/** Which forms of a result a host passes on to its model. `either`: the structured content, and text where there is none. */
type Shown = 'text' | 'either' | 'both'

export interface Host {
  /** The body of `POST /auth/register` (RFC 7591). */
  readonly registration: Readonly<Record<string, unknown>>
  /** One of the registered redirect URIs: the one that it signs in with. */
  readonly redirectUri: string
  /** The version of the protocol that it asks for in `initialize`. */
  readonly protocol: string
  /** `Accept` of its messages, if it is not the one that the protocol wants. */
  readonly accept?: string
  /** Methods of requests without a token that it sends to the endpoint before it signs in. */
  readonly probes?: readonly string[]
  /** Where it looks for the metadata of the issuer: below the path of the issuer, or at the root of its host. */
  readonly discovery: 'issuer' | 'root'
  /** Where it takes the scopes that it asks for. */
  readonly scopesFrom: 'challenge' | 'metadata' | 'nowhere'
  readonly shows: Shown
}

const CODE = { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }
const PUBLIC = { ...CODE, token_endpoint_auth_method: 'none' }

const loopback = (client_name: string, uri: string, more: object = {}) => ({
  registration: { client_name, redirect_uris: [uri], ...PUBLIC, ...more },
  redirectUri: uri,
})

const CLAUDE_WEB = {
  registration: {
    client_name: 'Claude',
    client_uri: 'https://claude.ai',
    redirect_uris: ['https://claude.ai/api/mcp/auth_callback'],
    scope: 'claudeai',
    ...PUBLIC,
  },
  redirectUri: 'https://claude.ai/api/mcp/auth_callback',
  protocol: '2025-06-18',
  probes: ['HEAD', 'GET'],
  discovery: 'issuer',
  scopesFrom: 'metadata',
  shows: 'both',
} as const satisfies Host

/** By name. */
export const HOSTS: Readonly<Record<string, Host>> = {
  'claude-code': {
    ...loopback('Claude Code (desk)', 'http://localhost:49152/callback'),
    protocol: '2025-11-25',
    discovery: 'issuer',
    scopesFrom: 'challenge',
    shows: 'either',
  },
  'claude-desktop': CLAUDE_WEB,
  'claude.ai': {
    ...CLAUDE_WEB,
    registration: {
      ...CLAUDE_WEB.registration,
      redirect_uris: ['https://claude.ai/api/mcp/auth_callback', 'https://claude.com/api/mcp/auth_callback'],
    },
  },
  chatgpt: {
    registration: {
      client_name: 'ChatGPT',
      redirect_uris: ['https://chatgpt.com/connector_platform_oauth_redirect'],
      token_endpoint_auth_method: 'client_secret_basic',
      ...CODE,
    },
    redirectUri: 'https://chatgpt.com/connector_platform_oauth_redirect',
    protocol: '2025-06-18',
    probes: ['GET'],
    discovery: 'issuer',
    scopesFrom: 'metadata',
    shows: 'both',
  },
  cursor: {
    registration: {
      client_name: 'Cursor',
      redirect_uris: [
        'cursor://anysphere.cursor-mcp/oauth/callback',
        'http://localhost:8787/callback',
        'https://www.cursor.com/agents/mcp/oauth/callback',
      ],
      ...PUBLIC,
    },
    redirectUri: 'cursor://anysphere.cursor-mcp/oauth/callback',
    protocol: '2025-11-25',
    discovery: 'issuer',
    scopesFrom: 'challenge',
    shows: 'text',
  },
  vscode: {
    registration: {
      client_name: 'Visual Studio Code',
      client_uri: 'https://code.visualstudio.com',
      redirect_uris: [
        'https://insiders.vscode.dev/redirect',
        'https://vscode.dev/redirect',
        'http://127.0.0.1/',
        'http://127.0.0.1:33418/',
      ],
      response_types: ['code'],
      grant_types: [...CODE.grant_types, 'urn:ietf:params:oauth:grant-type:device_code'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
    redirectUri: 'http://127.0.0.1:33418/',
    protocol: '2025-11-25',
    discovery: 'issuer',
    scopesFrom: 'challenge',
    shows: 'text',
  },
  codex: {
    ...loopback('Codex', 'http://127.0.0.1:52431/callback'),
    protocol: '2025-06-18',
    discovery: 'issuer',
    scopesFrom: 'challenge',
    shows: 'either',
  },
  gemini: {
    ...loopback('Gemini CLI MCP Client', 'http://localhost:7777/oauth/callback', {
      code_challenge_method: ['S256'],
      scope: '',
    }),
    protocol: '2025-06-18',
    probes: ['HEAD'],
    discovery: 'root',
    scopesFrom: 'metadata',
    shows: 'text',
  },
  windsurf: {
    ...loopback('Windsurf', 'http://127.0.0.1:51234/oauth/callback'),
    protocol: '2025-03-26',
    discovery: 'issuer',
    scopesFrom: 'metadata',
    shows: 'text',
  },
  zed: {
    ...loopback('Zed', 'http://127.0.0.1:50321/callback', { client_uri: 'https://zed.dev' }),
    protocol: '2025-11-25',
    discovery: 'issuer',
    scopesFrom: 'challenge',
    shows: 'text',
  },
  goose: {
    ...loopback('goose', 'http://localhost:60123/oauth_callback'),
    protocol: '2025-03-26',
    accept: '*/*',
    discovery: 'issuer',
    scopesFrom: 'nowhere',
    shows: 'text',
  },
  'LangChain and OpenAI Agents, by the SDK for Python': {
    ...loopback('MCP client', 'http://localhost:3030/callback'),
    protocol: '2025-11-25',
    discovery: 'issuer',
    scopesFrom: 'challenge',
    shows: 'text',
  },
  'Open WebUI': {
    registration: {
      client_name: 'Open WebUI',
      redirect_uris: ['https://webui.example/oauth/clients/mcp:desk/callback'],
      token_endpoint_auth_method: 'client_secret_post',
      ...CODE,
    },
    redirectUri: 'https://webui.example/oauth/clients/mcp:desk/callback',
    protocol: '2025-06-18',
    discovery: 'issuer',
    scopesFrom: 'metadata',
    shows: 'text',
  },
}
