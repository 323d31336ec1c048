/**
 * Clients of both generations of the official SDK for TypeScript, and their OAuth side: they register themselves or name
 * their document, and their user consents. It needs no test runner.
 */

import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client'
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { REDIRECT } from './page-browser.ts'

export { LegacyClient, ModernClient }

const INFO = { name: 'test', version: '1' }
const PINNED = { pin: '2026-07-28' } as const

/** How a client of the second generation chooses the protocol. */
export type Mode = 'legacy' | 'auto' | typeof PINNED

/** State of a client; its user answers the consent page as soon as it is opened. */
export class Agent {
  readonly redirectUrl = REDIRECT
  readonly clientMetadata = {
    client_name: 'Agent',
    redirect_uris: [REDIRECT],
    token_endpoint_auth_method: 'none',
    scope: 'mcp:agents:notes_get offline_access',
  }
  /** The URL of its document; without one, it registers. */
  readonly clientMetadataUrl?: string
  /** The scopes of each authorization. */
  readonly requestedScopes: string[] = []
  readonly #visit: (url: string) => Promise<URL>
  #redirected = new URLSearchParams()
  #client: never | undefined
  #tokens: never | undefined
  #verifier = ''
  #discovery: never | undefined

  /** @param visit opens a page as the user does, up to the redirect to the client */
  constructor(visit: (url: string) => Promise<URL>, clientMetadataUrl?: string) {
    this.#visit = visit
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl
  }

  clientInformation = () => this.#client
  saveClientInformation = (client: unknown) => {
    this.#client = client as never
  }
  tokens = () => this.#tokens
  saveTokens = (tokens: unknown) => {
    this.#tokens = tokens as never
  }
  saveCodeVerifier = (verifier: string) => {
    this.#verifier = verifier
  }
  codeVerifier = () => this.#verifier
  /** The issuer that was found, to which the code is bound (RFC 9207). */
  saveDiscoveryState = (state: unknown) => {
    this.#discovery = state as never
  }
  discoveryState = () => this.#discovery
  redirectToAuthorization = async (url: URL) => {
    this.requestedScopes.push(url.searchParams.get('scope') ?? '')
    this.#redirected = (await this.#visit(url.href)).searchParams
  }

  /** The parameters `code` and `iss` of the last redirect. */
  get redirected(): URLSearchParams {
    const { code, iss } = Object.fromEntries(this.#redirected)
    return new URLSearchParams({ code: code ?? '', iss: iss ?? '' })
  }
}

export interface Connected<C> {
  readonly client: C
  /** Ends an authorization that a request has begun; the request is then to be repeated. */
  finish(): Promise<void>
}

/** How a client authenticates: as an agent, with another provider of the SDK, or with a header. */
type Credentials = { readonly authProvider: unknown } | { readonly headers: Readonly<Record<string, string>> }

const optionsOf = (credentials: Credentials) =>
  'headers' in credentials
    ? { requestInit: { headers: credentials.headers } }
    : { authProvider: credentials.authProvider as never }

/**
 * Connects a client of the protocols up to 2025-11-25. An agent signs in first.
 * @param answering adds the handlers of a client that answers forms
 */
export function connectLegacy(
  url: string,
  credentials: Credentials,
  answering?: (client: LegacyClient) => void,
): Promise<Connected<LegacyClient>> {
  return connected(credentials, () => {
    const capabilities = answering === undefined ? {} : { elicitation: {} }
    const client = new LegacyClient(INFO, { capabilities })
    answering?.(client)
    const transport = new LegacyTransport(new URL(url), optionsOf(credentials))
    return {
      client,
      connect: () => client.connect(transport as Parameters<typeof client.connect>[0]),
      finishAuth: (redirected) => transport.finishAuth(redirected.get('code') ?? ''),
    }
  })
}

/** Connects a client of the protocol 2026-07-28, unless `mode` says otherwise. An agent signs in first. */
export function connectModern(
  url: string,
  credentials: Credentials,
  mode: Mode = PINNED,
): Promise<Connected<ModernClient>> {
  return connected(credentials, () => {
    const client = new ModernClient(INFO, { versionNegotiation: { mode } })
    const transport = new ModernTransport(new URL(url), optionsOf(credentials))
    return {
      client,
      connect: () => client.connect(transport),
      finishAuth: (redirected) => transport.finishAuth(redirected),
    }
  })
}

interface Attempt<C> {
  readonly client: C
  connect(): Promise<void>
  finishAuth(redirected: URLSearchParams): Promise<void>
}

async function connected<C>(credentials: Credentials, open: () => Attempt<C>): Promise<Connected<C>> {
  const agent = 'authProvider' in credentials ? credentials.authProvider : undefined
  const finish = (attempt: Attempt<C>) => async () => {
    if (!(agent instanceof Agent)) throw new TypeError('only an agent has a user')
    await attempt.finishAuth(agent.redirected)
  }
  const first = open()
  try {
    await first.connect()
    return { client: first.client, finish: finish(first) }
  } catch (error) {
    if (!(agent instanceof Agent) || !/unauthorized/i.test(String(error))) throw error
    await finish(first)()
  }
  // A transport is for one connection.
  const second = open()
  await second.connect()
  return { client: second.client, finish: finish(second) }
}
